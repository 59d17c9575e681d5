"""The classes behind an archive."""
