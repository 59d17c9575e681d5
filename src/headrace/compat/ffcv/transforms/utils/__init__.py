"""Helpers of transforms."""
