"""Changing an archive: transactions, shards that grow, locks, and what is undone after a crash."""
