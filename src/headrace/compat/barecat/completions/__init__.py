"""Completion scripts."""
