"""The originals' module trees over penstock: programs written for them run unchanged.

``install("ffcv")`` makes ``import ffcv`` give penstock's adapters in this process; ``python -m penstock.compat run
train.py`` does that for a whole program.
"""

from penstock.compat.alias import available, install

__all__ = ["available", "install"]
