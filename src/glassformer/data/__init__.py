"""From a table in any format to pairs, ids and batches; every row is accounted for in a ledger."""
