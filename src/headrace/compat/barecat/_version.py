"""Which version of barecat this stands in for."""

__all__ = ["version"]

version = "0.3.1"
