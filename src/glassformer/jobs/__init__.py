"""Translation jobs: rows are read, translated and written in chunks, in order, and an interrupted job is resumed.

inputs   what is read: plain lines, or columns of a table, from a file or a stream
chunks   rows in groups, as large as speed needs or as small as a stream needs
answers  an answer, and what the job adds to it
stream   the texts of a chunk to answers; what happens to texts that are too long (`sentences`), `alignment`
layout   answers to bytes: lines, CSV, TSV, JSON Lines (and from these Parquet)
output   where the bytes go: a stream, or a file that can be resumed
job      all of it, in one loop
requests these parts, decided from what was requested
on_ray   the same on the machines of a cluster
"""
