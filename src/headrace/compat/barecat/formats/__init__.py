"""Other containers."""
