"""Committed results of ``headrace bench``, and what puts them into the README and the documentation."""
