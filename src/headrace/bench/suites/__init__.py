"""One module for each suite; each has a ``SUITE``."""
