"""The benchmarks that figures in README and docs come from: `python -m benchmarks NAME [options]`.

training    updates a second, next to PyTorch's layers and MarianMT            docs/results.md
one_text    one text at a time, next to CTranslate2                            docs/results.md
page        what a person waits for at the glass box                           docs/results.md
defaults    exact match of the default command and of what it chooses from     docs/defaults.md, docs/results.md
exports     one model in every format: speed, size, memory                     docs/deploy.md
serving     a server under load                                                docs/http-api.md
large       time and memory of tables up to ten million rows                   docs/large-tables.md
suspects    how many spoiled rows `score --suspects` finds                     docs/before-training.md

Each prints its table in Markdown. Contenders compute in turns (turns.py), on the same rows in the same batches
(tasks.py); peers.py has the models of other libraries, and trained.py a model of dates that is trained once.
"""

NAMES = ("training", "one_text", "page", "defaults", "exports", "serving", "large", "suspects")
