"""Barecat's side of the barecat suites.

usage: PYTHON-WITH-BARECAT barecat_peer.py WHAT ARCHIVE [REPEATS]
WHAT is read, read_cold (5,120 files that are not in the page cache), files, walk, verify, open (ARCHIVE exists),
create (ARCHIVE is made from the folder ARCHIVE.d) or lmdb (the same files from an LMDB, each with its CRC-32C in front,
which is compared). Prints one JSON line with the seconds of each repetition, or an empty list without the package;
imports and process start are not counted.
"""

import importlib.util
import json
import os
import random
import sys
import time

import barecat


def names(archive: object) -> list:
    found = sorted(archive)
    random.Random(1).shuffle(found)
    return found[:30_000]


def run_lmdb(path: str) -> float:
    import crc32c
    import lmdb

    is_new = not os.path.exists(path + ".lmdb")
    base = lmdb.open(path + ".lmdb", map_size=64 << 30, lock=is_new, readonly=not is_new)
    with barecat.Barecat(path) as archive:
        chosen = names(archive)
        if is_new:
            with base.begin(write=True) as change:
                for name in archive:
                    data = archive[name]
                    change.put(name.encode(), crc32c.crc32c(data).to_bytes(4, "little") + data)
    start_s = time.perf_counter()
    with base.begin(buffers=True) as look:
        for name in chosen:
            value = look.get(name.encode())
            data = bytes(value[4:])
            assert crc32c.crc32c(data) == int.from_bytes(value[:4], "little")
    seconds = time.perf_counter() - start_s
    base.close()
    return seconds


def run(what: str, path: str) -> float:
    if what == "lmdb":
        return run_lmdb(path)
    if what == "create":
        start_s = time.perf_counter()
        with barecat.Barecat(path, readonly=False, overwrite=True) as archive:
            for folder, _, files in os.walk(path + ".d"):
                for file in files:
                    full = os.path.join(folder, file)
                    archive.add_by_path(full, os.path.relpath(full, path + ".d"))
        return time.perf_counter() - start_s
    if what == "open":
        start_s = time.perf_counter()
        barecat.Barecat(path).close()
        return time.perf_counter() - start_s
    with barecat.Barecat(path) as archive:
        chosen = names(archive) if what in ("read", "read_cold") else []
        if what == "read_cold":
            chosen = chosen[:5120]
            with open("/proc/sys/vm/drop_caches", "w") as file:
                file.write("3")
        start_s = time.perf_counter()
        if chosen:
            for name in chosen:
                archive[name]
        elif what == "files":
            list(archive.index.iter_all_fileinfos())
        elif what == "walk":
            list(archive.walk(""))
        else:
            archive.verify_integrity()
        return time.perf_counter() - start_s


def main() -> None:
    what, path = sys.argv[1], sys.argv[2]
    repeats = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    if what == "lmdb" and importlib.util.find_spec("lmdb") is None:
        print("[]")
        return
    run(what, path)  # does not count, as on the other side
    print(json.dumps([run(what, path) for _ in range(repeats)]))


if __name__ == "__main__":
    main()
