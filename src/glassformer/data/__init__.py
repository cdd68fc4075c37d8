"""Read a table of any format as pairs, ids and batches. A ledger accounts for every row."""
