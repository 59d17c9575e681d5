"""The originals' module trees over headrace: programs written for them run unchanged.

``install("ffcv")`` makes ``import ffcv`` give headrace's adapters in this process; ``python -m headrace.compat run
train.py`` does that for a whole program.
"""

from headrace.compat.alias import available, install

__all__ = ["available", "install"]
