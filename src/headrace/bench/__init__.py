"""Measurements that anyone can run on their own disk with their own pictures: ``headrace bench SUITE``."""

from headrace.bench.runner import SUITES, find_suite, run_suite
from headrace.bench.suite import Settings, Suite

__all__ = ["SUITES", "Settings", "Suite", "find_suite", "run_suite"]
