"""``import ffrecord`` in a process that a program with headrace's adapters has started."""

import importlib
import os
import sys

try:
    from headrace.compat.alias import take_over
except ModuleNotFoundError:  # another interpreter: what it has under this name is meant
    sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(os.path.abspath(__file__))]
    del sys.modules[__name__]
    importlib.import_module(__name__)
else:
    take_over(__name__.rpartition(".")[2])
