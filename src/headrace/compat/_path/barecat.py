"""``import barecat`` and ``python -m barecat`` in a process that a program with headrace's adapters has started."""

import importlib
import os
import runpy
import sys

try:
    from headrace.compat.alias import take_over
    from headrace.compat.commands import run_command
except ModuleNotFoundError:  # another interpreter: what it has under this name is meant
    sys.path[:] = [entry for entry in sys.path if entry != os.path.dirname(os.path.abspath(__file__))]
    if __name__ == "__main__":
        runpy.run_module("barecat", run_name="__main__", alter_sys=True)
    else:
        del sys.modules[__name__]
        importlib.import_module(__name__)
else:
    if __name__ == "__main__":
        sys.exit(run_command(["barecat", *sys.argv[1:]]))
    take_over(__name__.rpartition(".")[2])
