"""Barecat's process, for the suite ``archives``; it needs nothing of this package.

usage: PYTHON-WITH-BARECAT barecat_script.py ARCHIVE READS
Each line of standard input names what to do, and is answered with a line of JSON: its seconds. ``create`` makes
ARCHIVE.peer from the folder ARCHIVE.d; ``read_cold`` reads files that are not in the page cache.
"""

import glob
import json
import os
import random
import sys
import time
from typing import Any

import barecat


def chosen_names(archive: Any, reads: int) -> list[str]:
    """The same files in the same order as on the other side."""
    found = sorted(archive)
    random.Random(1).shuffle(found)
    return found[:reads]


def forget(path: str) -> None:
    """Take the archive's files out of the page cache."""
    for name in glob.glob(f"{path}-*"):
        fd = os.open(name, os.O_RDONLY)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def create(path: str) -> None:
    """By the call that its documentation names, a file at a time."""
    with barecat.Barecat(f"{path}.peer", readonly=False, overwrite=True) as archive:
        for folder, _, files in os.walk(f"{path}.d"):
            for file in files:
                full = os.path.join(folder, file)
                archive.add_by_path(full, os.path.relpath(full, f"{path}.d"))


def run(what: str, path: str, reads: int) -> float:
    """Do one thing; gives its seconds."""
    start_s = time.perf_counter()
    if what == "create":
        create(path)
        return time.perf_counter() - start_s
    if what == "open":
        barecat.Barecat(path).close()
        return time.perf_counter() - start_s
    with barecat.Barecat(path) as archive:
        names = chosen_names(archive, reads) if what.startswith("read") else []
        if what == "read_cold":
            forget(path)
        start_s = time.perf_counter()
        for name in names:
            archive[name]
        if what == "files":
            list(archive.index.iter_all_fileinfos())
        elif what == "walk":
            list(archive.walk(""))
        elif what == "verify":
            archive.verify_integrity()
        return time.perf_counter() - start_s


def main() -> None:
    """Answer until there are no more questions."""
    path, reads = sys.argv[1], int(sys.argv[2])
    for line in sys.stdin:
        print("\n" + json.dumps({"seconds": run(json.loads(line), path, reads)}), flush=True)


if __name__ == "__main__":
    main()
