"""How fast we are beside our peers: `python -m benchmarks` (or `make bench`), all contenders in one run, in turns.

tasks.py       what is trained and translated: the same rows in the same batches for everybody, and its arithmetic
contenders.py  who takes part, by name: ours.py, torch_layers.py, marian.py, direct.py
turns.py       one process a contender, one of them computing at a time; memory seen from outside
jobs.py        what is measured: training, decoding, one sentence (curves.py, padding.py and page.py: what they say)
figures.py     medians with their interval, ratios, shares of the peak: numbers in, numbers out
report.py      JSON, and the tables of docs/performance.md
profile.py     where the time of a step goes (`make profile`)
startup.py     how long the command line takes to answer
inflection.py  how good the default command is at inflection: five languages, three seeds (hours)
"""
