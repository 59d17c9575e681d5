"""What is on the disk: the contents of a target, whatever its format, and the names of all files in a folder."""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tarfile
import warnings
import zipfile
from typing import TYPE_CHECKING

import numpy as np

import headrace as hr
from headrace.formats.barecat import Archive
from headrace.formats.barecat.names import shard_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from headrace.types import Dataset, Report

__all__ = ["DamagedError", "State", "looks", "names_below", "shards_in_use", "state_of"]

State = dict[str, str]
"""For each name in a target, a digest of its contents; an empty one is a target that is not there."""


class DamagedError(Exception):
    """A target can be opened, and is not whole."""


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()[:16]


def state_of(path: str) -> State:
    """Read all of a target, with headrace or, where others can, without it."""
    if not os.path.lexists(path) and not os.path.lexists(f"{path}-replace"):  # an archive that is about to be
        return {}
    if os.path.isdir(path):
        return _folder_state(path)
    if path.endswith(".barecat"):
        return _archive_state(path)
    if path.endswith((".beton", ".ffr")):
        return _dataset_state(path)
    if ".tar" in path:
        return _tar_state(path)
    if path.endswith(".zip"):
        return _zip_state(path)
    if path.endswith((".jsonl", ".csv")) and not path.endswith("table.csv"):
        return _manifest_state(path)
    if path.endswith((".jsonl.annex", ".csv.annex")):
        return {".": "annex"}  # of a manifest whose bytes say which folder had a free name
    if not path.endswith((".annex", "table.csv")):
        _read_whole(path)
    with open(path, "rb") as file:
        return {".": _digest(file.read())}


def _read_whole(path: str) -> None:
    """Whatever opens must be whole; an annex that is not of this file is a target of its own."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.closing(hr.open(path)) as dataset:
            for _ in dataset:
                pass


def _manifest_state(path: str) -> State:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with contextlib.closing(hr.open(path)) as dataset:
            return {str(i): _digest(b"\0".join(_values(dataset, i))) for i in range(len(dataset))}


def _folder_state(path: str) -> State:
    state = {}
    for name in names_below(path):
        whole = os.path.join(path, name)
        if name.endswith("/"):
            state[name] = "folder"
            continue
        with open(whole, "rb") as file:
            state[name] = _digest(file.read())
    return state


def _refuse_problems(report: Report) -> None:
    if not report.ok:
        raise DamagedError("; ".join(problem.message for problem in report.problems[:3]))


def _archive_state(path: str) -> State:
    with Archive(path, follow_links=True) as archive:
        _refuse_problems(archive.verify(workers=1))
        state = {f"{info.path}/": "folder" for info in archive.index.dirs() if info.path}
        return state | {name: _digest(data) for name, data in archive.items()}


def shards_in_use(path: str) -> set[str]:
    """Names of the shards that files of an archive lie in; none where there is no archive."""
    if not os.path.exists(path):
        return set()
    with Archive(path, follow_links=True) as archive:
        return {os.path.basename(shard_path(path, info.shard)) for info in archive.files() if info.size}


def _dataset_state(path: str) -> State:
    with hr.open(path) as dataset:
        _refuse_problems(dataset.verify(workers=1))
        keys = dataset.keys
        state = {
            f"{i}:{keys[i] if keys is not None else ''}": _digest(b"\0".join(_values(dataset, i)))
            for i in range(len(dataset))
        }
        facts = (dataset.has_checksums, dict(dataset.class_names), list(dataset.folders), list(dataset.schema))
        return state | {".": _digest(repr(facts).encode())}


def _values(dataset: Dataset, index: int) -> Iterator[bytes]:
    for name, field in dataset.schema.items():
        if field.kind in ("int", "float"):
            yield np.asarray(dataset.read_values(np.array([index], np.int64), name)).tobytes()
        else:
            yield dataset.read_bytes([index], name)[0]


def _tar_state(path: str) -> State:
    state: State = {}
    with tarfile.open(path) as tar:
        for member in tar:
            data = tar.extractfile(member) if member.isfile() else None
            if data is not None:
                content = data.read()
                if len(content) != member.size:
                    raise DamagedError(f"{member.name} is cut short")
                state[member.name] = _digest(content)
    return state | {".": "tar"}


def _zip_state(path: str) -> State:
    with zipfile.ZipFile(path) as file:
        return {name: _digest(file.read(name)) for name in file.namelist()} | {".": "zip"}


def names_below(path: str) -> list[str]:
    """All files and folders below a folder, folders with a slash at the end, links as they are."""
    found = []
    for folder, folders, files in os.walk(path):
        base = os.path.relpath(folder, path)
        for name in folders:
            link = os.path.islink(os.path.join(folder, name))
            found.append(os.path.normpath(os.path.join(base, name)) + ("" if link else "/"))
        found += [os.path.normpath(os.path.join(base, name)) for name in files]
    return sorted(found)


def looks(path: str) -> dict[str, tuple[int, ...]]:
    """Number, size, mode and time of every file below a folder: whether something was touched."""
    seen = {}
    for name in names_below(path):
        facts = os.lstat(os.path.join(path, name))
        time_ns = 0 if stat.S_ISDIR(facts.st_mode) else facts.st_mtime_ns
        seen[name] = (facts.st_ino, facts.st_size, facts.st_mode, time_ns)
    return seen
