"""Asks Barecat in which order it lists what is in an archive, and writes the answers down.

python record.py ANSWERS.json, with the original Barecat 0.3.1; or, with the drop-in of headrace,
python -m headrace.compat run record.py ANSWERS.json
"""

from __future__ import annotations

import json
import os
import random
import sys
import tempfile
from typing import TYPE_CHECKING, Any

from barecat import Barecat, BarecatDirInfo, BarecatFileInfo

if TYPE_CHECKING:
    from collections.abc import Callable

PLAIN = ("*", "*/", "*/*", "*/*.txt", "zoo/*", "zoo/?/*", "*/9.txt", "*/b/*", "[a-z]*", "[a-z]*/*", "zoo", "no/*")
DEEP = ("**", "**/*", "**/*.txt", "*/**", "zoo/**", "zoo/**/*.txt", "**/b", "**/b/*", "*/**/*.txt", "zoo/**/b/*")
RAW = ("*", "zoo/*", "*.txt", "z*")
FILES = [
    "zoo/b/9.txt",
    "zoo/b/1.txt",
    "zoo/a/5.txt",
    "ant/deep/er/est/3.txt",
    "ant/b/2.jpg",
    "top.txt",
    "zoo/z.txt",
    "mid/9.txt",
    "mid/1.txt",
    "ant/deep/b/7.txt",
    ".hidden/b/1.txt",
    "mid/.secret.txt",
    "zoo/b/c/d/8.txt",
    "a top.txt",
    "ant/9.txt",
    "zoo.d/4.txt",
    "Zoo/6.txt",
]


def by_assignment(archive: Barecat, names: list[str]) -> None:
    for name in names:
        archive[name] = name.encode()


def by_info(archive: Barecat, names: list[str]) -> None:
    for name in names:
        archive.add(BarecatFileInfo(path=name, mode=0o644), data=name.encode())


def with_look(archive: Barecat, names: list[str]) -> None:
    for name in names:
        archive[name] = name.encode()
        archive.listdir("")


def with_dirs(archive: Barecat, names: list[str]) -> None:
    for name in ("mid", "new/empty/one", "ant", "zoo/b"):
        archive.mkdir(name)
    by_assignment(archive, names)
    archive.mkdir("ant/last")
    archive.mkdir("aaa/bbb")
    archive.add(BarecatDirInfo("new/empty/one", mode=0o700), dir_exist_ok=True)


def with_changes(archive: Barecat, names: list[str]) -> None:
    by_assignment(archive, names)
    archive.rename("zoo/b", "ant/moved")
    archive.mkdir("other/place")
    archive.rename("mid/9.txt", "other/place/9.txt")
    archive.rmtree("zoo")
    del archive["top.txt"]
    archive["top.txt"] = b"again"
    archive["zoo/a/5.txt"] = b"again"
    archive.remove("ant/deep/b/7.txt")
    archive.rmdir("ant/deep/b")
    archive["ant/deep/b/8.txt"] = b"again"


def by_rows(archive: Barecat, names: list[str]) -> None:
    rows = [BarecatFileInfo(path=name, shard=0, offset=0, size=0, crc32c=0) for name in names]
    archive.index.add_files(rows[:5])
    for row in rows[5:]:
        archive.index.add_file(row)


def in_bulk(archive: Barecat, names: list[str]) -> None:
    archive["first/one/1.txt"] = b"1"
    with archive.index.bulk_mode():
        for name in names:
            archive.index.add_file(BarecatFileInfo(path=name, shard=0, offset=0, size=0, crc32c=0))


def merged(archive: Barecat, names: list[str]) -> None:
    archive["mid/5.txt"] = b"5"
    archive["last/1.txt"] = b"5"
    with tempfile.TemporaryDirectory() as folder:
        other = os.path.join(folder, "other.barecat")
        with Barecat(other, readonly=False) as source:
            by_assignment(source, names)
            source.mkdir("an/empty/one")
        archive.merge_from_other_barecat(other)
        archive.merge_from_other_barecat(other, prefix="below/it")
        archive.merge_from_other_barecat(other, prefix="some", pattern="**/*.txt")
        archive.index.merge_from_other_barecat(other, prefix="rows/of")


def from_disk(archive: Barecat, names: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for name in names:
            path = os.path.join(folder, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            with open(path, "w") as file:
                file.write(name)
            archive.add_by_path(path, name)
        archive.add_by_path(os.path.join(folder, "zoo"), "mid/zoo2")


WHOLE = ("by_assignment", "with_dirs", "with_changes")
WAYS: dict[str, Callable[[Barecat, list[str]], None]] = {
    "by_assignment": by_assignment,
    "by_info": by_info,
    "with_look": with_look,
    "with_dirs": with_dirs,
    "with_changes": with_changes,
    "by_rows": by_rows,
    "in_bulk": in_bulk,
    "merged": merged,
    "from_disk": from_disk,
}


def orders() -> dict[str, list[str]]:
    """The same names in several orders."""
    mixed = list(FILES)
    random.Random(3).shuffle(mixed)
    return {"given": FILES, "sorted": sorted(FILES), "reversed": sorted(FILES, reverse=True), "mixed": mixed}


def rows(archive: Barecat) -> list[str]:
    """The directories by the numbers of their rows."""
    return [row[0] for row in archive.index.fetch_all("SELECT path FROM dirs ORDER BY rowid")]


def answers(archive: Barecat) -> dict[str, Any]:
    """What the archive says about its contents."""
    index = archive.index
    folders = [folder for folder in ("", "zoo", "ant", "mid") if archive.isdir(folder)]
    rules = [("+", "**/*.txt"), ("-", "zoo/**")]
    return {
        "rows": rows(archive),
        "iter": list(archive),
        "files": list(archive.files()),
        "dirs": list(archive.dirs()),
        "all_paths": list(index.iter_all_paths()),
        "all_infos": [info.path for info in index.iter_all_infos()],
        "listdir": {folder: archive.listdir(folder) for folder in folders},
        "listdir_infos": {folder: [info.path for info in index.listdir_infos(folder)] for folder in folders},
        "scandir": {folder: [info.path for info in archive.scandir(folder)] for folder in folders},
        "walk": {folder: [list(step) for step in archive.walk(folder)] for folder in folders},
        "glob": {pattern: archive.glob(pattern) for pattern in PLAIN},
        "globfiles": {pattern: archive.globfiles(pattern) for pattern in PLAIN},
        "deep": {pattern: archive.glob(pattern, recursive=True) for pattern in DEEP},
        "deepfiles": {pattern: archive.globfiles(pattern, recursive=True) for pattern in DEEP},
        "hidden": {pattern: archive.glob(pattern, recursive=True, include_hidden=True) for pattern in DEEP[:5]},
        # the original ends at the first directory in which there is no such file
        "infos": {p: [info.path for info in index.iterglob_infos(p)] for p in PLAIN if p != "*/9.txt"},
        "deepinfos": {p: [info.path for info in index.iterglob_infos(p, recursive=True)] for p in DEEP},
        "raw": {pattern: index.raw_glob_paths(pattern) for pattern in RAW},
        "rawfiles": {pattern: list(index.raw_iterglob_paths(pattern, only_files=True)) for pattern in RAW},
        "rules": [info.path for info in index.iterglob_infos_incl_excl(rules)],
    }


def record() -> dict[str, Any]:
    """Rows of all trees, when they are opened again; and all answers of those whose files came in a mixed order."""
    found: dict[str, Any] = {}
    for way, write in WAYS.items():
        for order, names in orders().items():
            with tempfile.TemporaryDirectory() as folder:
                path = os.path.join(folder, "x.barecat")
                with Barecat(path, readonly=False) as archive:
                    write(archive, names)
                with Barecat(path) as archive:
                    is_whole = order == "mixed" and way in WHOLE
                    found[f"{way} {order}"] = answers(archive) if is_whole else {"rows": rows(archive)}
    return found


if __name__ == "__main__":
    with open(sys.argv[1], "w") as file:
        json.dump(record(), file)
