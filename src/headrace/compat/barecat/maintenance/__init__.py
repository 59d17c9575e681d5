"""Whole archives: joining, copying, packing tighter."""
