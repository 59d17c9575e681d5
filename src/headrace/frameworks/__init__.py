"""Batch to device: one module for each framework, and only these import one."""
