"""Code in a process of its own, with little memory and little time."""

from __future__ import annotations

import subprocess
import sys

GIB = 1 << 30

_HEAD = """\
import resource
resource.setrlimit(resource.RLIMIT_AS, ({memory}, {memory}))
resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
"""
# Not ru_maxrss, which begins with that of the process it was forked from.
_FOOT = """
print("peak", next(int(line.split()[1]) >> 10 for line in open("/proc/self/status") if line.startswith("VmHWM")))
"""


def run_limited(
    code: str, *arguments: str, memory: int = 4 * GIB, seconds: float = 60, env: dict[str, str] | None = None
) -> tuple[str, int]:
    """Run code and give what it printed, and the largest memory it had in MiB; it must end well."""
    done = subprocess.run(
        [sys.executable, "-c", _HEAD.format(memory=memory) + code + _FOOT, *arguments],
        capture_output=True,
        text=True,
        timeout=seconds,
        env=env,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    printed, _, peak = done.stdout.rpartition("peak ")
    return printed, int(peak)
