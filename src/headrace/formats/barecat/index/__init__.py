"""The index of an archive: the SQLite file, and what is asked of it and written to it."""
