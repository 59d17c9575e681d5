"""Matches a regular expression against names, in a process of its own: one that takes for ever is ended with it.

Run as a program, without anything but the standard library. It reads the length of a pattern (u32) and the pattern,
then blocks: count u32, size u32, ``count`` ends (u32), text of ``size`` bytes. It answers the pattern with a line,
empty or what is wrong with it, and each block with ``count`` bytes, 1 where a name matches.
"""

import re
import resource
import struct
import sys

_MEMORY_BYTES = 1 << 30


def main() -> None:
    """Answer until the input ends."""
    resource.setrlimit(resource.RLIMIT_AS, (_MEMORY_BYTES, _MEMORY_BYTES))
    source, out = sys.stdin.buffer, sys.stdout.buffer
    (length,) = struct.unpack("<I", source.read(4))
    try:
        search = re.compile(source.read(length).decode("utf-8", "surrogateescape"), re.IGNORECASE).search
        problem = ""
    except (re.error, OverflowError, RecursionError, MemoryError) as error:
        problem = str(error) or type(error).__name__
    out.write(problem.replace("\n", " ").encode("utf-8", "replace") + b"\n")
    out.flush()
    while not problem and (head := source.read(8)):
        count, size = struct.unpack("<II", head)
        ends = struct.unpack(f"<{count}I", source.read(4 * count))
        text = source.read(size)
        starts = (0, *ends[:-1])
        names = (text[a:b].decode("utf-8", "surrogateescape") for a, b in zip(starts, ends, strict=True))
        out.write(bytes(search(name) is not None for name in names))
        out.flush()


if __name__ == "__main__":
    main()
