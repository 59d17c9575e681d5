"""What the commands do, as functions."""

from __future__ import annotations

import json
import os
import stat
import struct
import sys
import time
import zipfile
from dataclasses import replace
from typing import TYPE_CHECKING

from headrace.cli.common import say
from headrace.compat.barecat._api import version
from headrace.compat.barecat.core.barecat import Barecat
from headrace.compat.barecat.core.index import Index
from headrace.compat.barecat.core.paths import is_tar_or_zip, resolve_index_path, without_ending
from headrace.compat.barecat.core.types import BarecatDirInfo, BarecatEntryInfo, BarecatFileInfo
from headrace.compat.barecat.exceptions import DuplicateBarecatError, translated
from headrace.compat.barecat.util import misc
from headrace.compat.barecat.util.glob_to_regex import make_filter
from headrace.errors import EntryExistsError
from headrace.formats.barecat.names import is_part_of
from headrace.formats.barecat.pack import pack_entries
from headrace.formats.disk_files import DiskEntry
from headrace.formats.entry_names import safe_name
from headrace.formats.report import Transfer
from headrace.transfer.containers import KINDS, archive_entries, read_entries
from headrace.transfer.extract import extract_files
from headrace.transfer.merge import link_archives
from headrace.transfer.sinks import ArchiveSink, open_sink

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import BinaryIO

    from headrace.errors import PathLike
    from headrace.transfer.sinks import Sink
    from headrace.types import Progress

__all__ = [
    "archive2barecat",
    "barecat2archive",
    "create",
    "extract",
    "merge",
    "merge_symlink",
    "pack_container",
    "print_ncdu_json",
    "read_index",
    "wrap_archive",
    "write_container",
    "write_index",
]

_MAGICS = {b"\x1f\x8b": "gzip", b"BZh": "bzip2", b"\xfd7zXZ\x00": "xz"}


def create(
    filesys_and_store_path_pairs: Iterable[tuple[str, str]],
    target_path: PathLike,
    shard_size_limit: int | str | None,
    overwrite: bool = False,
    exist_ok: bool = True,
    workers: int | None = None,
    progress: Progress | None = None,
) -> None:
    """Pack files and directories of the disk.

    Links that lead nowhere, pipes, devices and the archive itself are left out, and said on standard error. A path that
    is missing is an error, after everything before it was packed.
    """
    result = Transfer()
    failures: list[OSError] = []
    with (
        Barecat(target_path, shard_size_limit, readonly=False, overwrite=overwrite, exist_ok=exist_ok) as writer,
        translated(),
    ):
        found = _stat_all(filesys_and_store_path_pairs, os.fspath(target_path), result.skipped, failures)
        pack_entries(writer._archive, found, result, workers=workers or 1, progress=progress)
    _print_left_out(result.skipped)
    if failures:
        raise failures[0]


def _stat_all(
    pairs: Iterable[tuple[str, str]], archive: str, skipped: list[str], failures: list[OSError]
) -> Iterator[DiskEntry]:
    for path, name in pairs:
        if os.path.islink(path) and not os.path.exists(path):
            skipped.append(f"{path}: a link that leads nowhere")
            continue
        try:
            status = os.stat(path)
        except OSError as error:
            failures.append(error)
            return
        if is_part_of(path, archive):
            skipped.append(f"{path}: a part of the archive itself")
        elif stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode):
            yield DiskEntry(path, BarecatFileInfo(name).path, status)
        else:
            skipped.append(f"{path}: neither a file nor a directory")


def _announce(source: str, prefix: str | None, as_subdirs: bool) -> str:
    """Say what is merged; gives the directory that it goes into."""
    parts = [prefix or "", without_ending(os.path.basename(source)) if as_subdirs else ""]
    below = "/".join(part.strip("/") for part in parts if part)
    print(f"Merging files from {source}" + (f" -> {below}/" if below else ""))
    return below


def merge(
    source_paths: Sequence[str],
    target_path: str,
    shard_size_limit: int | str | None = None,
    overwrite: bool = False,
    ignore_duplicates: bool = False,
    as_subdirs: bool = False,
    prefix: str | None = None,
    pattern: str | None = None,
    filter_rules: Sequence[tuple[str, str]] | None = None,
) -> None:
    """Copy archives, tars and zips into one archive."""
    with Barecat(target_path, shard_size_limit, readonly=False, overwrite=overwrite) as writer:
        for source in source_paths:
            below = _announce(source, prefix, as_subdirs)
            if is_tar_or_zip(source):
                _take_in(writer, source, below=below, keep=make_filter(pattern, filter_rules), ignore=ignore_duplicates)
            else:
                writer.merge_from_other_barecat(source, ignore_duplicates, below, pattern, filter_rules)


def merge_symlink(
    source_paths: Sequence[str],
    target_path: str,
    overwrite: bool = False,
    ignore_duplicates: bool = False,
    as_subdirs: bool = False,
    prefix: str | None = None,
    pattern: str | None = None,
    filter_rules: Sequence[tuple[str, str]] | None = None,
) -> None:
    """Make an archive whose shards are links to those of others: nothing is copied."""
    if pattern or filter_rules:
        print("Error: --pattern/--include/--exclude not supported with --symlink", file=sys.stderr)
        sys.exit(1)
    if overwrite:
        misc.remove(target_path)
    prefixes = [_announce(source, prefix, as_subdirs) for source in source_paths]
    try:
        with translated():
            link_archives(
                source_paths, target_path, prefixes=prefixes, ignore_duplicates=ignore_duplicates, follow_links=True
            )
    except FileExistsError as error:
        cause = error.__cause__
        if isinstance(cause, EntryExistsError):
            misc.remove(target_path)
            raise DuplicateBarecatError(cause.name) from cause
        raise


def extract(barecat_path: PathLike, target_directory: PathLike) -> None:
    """Write all files, with modes and times, and directories below a folder; never outside of it."""
    misc.deprecate("barecat.extract()", "'barecat extract' CLI or Barecat class directly instead.", end="")
    with Barecat(barecat_path) as reader, translated():
        extract_files(reader._archive, target_directory, force=True)


def archive2barecat(
    src_path: str, target_path: str, shard_size_limit: int | str | None = None, overwrite: bool = False
) -> None:
    """A tar or zip as an archive."""
    _check_ending(src_path)
    pack_container(src_path, target_path, shard_size_limit, overwrite)


def pack_container(
    source: str | BinaryIO, path: str, limit: int | str | None, overwrite: bool, kind: str | None = None
) -> None:
    """A tar or zip, or a stream that is a tar of some kind, as an archive."""
    with Barecat(path, limit, readonly=False, overwrite=overwrite) as writer:
        _take_in(writer, source, kind)


def _check_ending(path: str) -> None:
    if not is_tar_or_zip(path):
        raise ValueError(f"Unsupported archive format: {path}; known are {', '.join(KINDS)}")


def _take_in(
    writer: Barecat,
    source: str | BinaryIO,
    kind: str | None = None,
    *,
    below: str = "",
    keep: Callable[[str], object] = lambda path: True,
    ignore: bool = False,
) -> None:
    """Add what is in a tar or zip; what cannot be stored is said on standard error."""
    result = Transfer()
    sink = ArchiveSink(writer._archive, prefix=below, ignore_duplicates=ignore)
    with translated():
        for entry in read_entries(source, result.skipped, kind=kind):
            if keep(entry.name):
                sink.put_counted(entry, result)
        sink.finish()
    _print_left_out(line for line in result.skipped if not line.endswith("exists already"))


def _print_left_out(lines: Iterable[str]) -> None:
    for line in lines:
        say(f"left out: {line}", file=sys.stderr)


def barecat2archive(src_path: str, target_path: str, root_dir: str | None = None) -> None:
    """An archive as a tar or zip."""
    _check_ending(target_path)
    write_container(src_path, open_sink(target_path, force=True), root_dir)


def write_container(src_path: str, sink: Sink, root_dir: str | None) -> None:
    """All entries of an archive, below a directory if one is named; every file is checked on the way."""
    before = f"{root_dir}/" if root_dir else ""
    try:
        with Barecat(src_path) as bc, translated():
            for entry in archive_entries(bc._archive):
                sink.put(replace(entry, name=before + entry.name))
        sink.finish()
    except BaseException as error:
        sink.abort(error)
        raise


def wrap_archive(src_path: str, target_path: str, overwrite: bool = False) -> None:
    """An index over a tar or zip that is not compressed; its only shard is a link to it."""
    _check_ending(src_path)
    with open(src_path, "rb") as file:
        head = file.read(6)
    kind = next((kind for magic, kind in _MAGICS.items() if head.startswith(magic)), None)
    if kind:
        raise ValueError(f"Cannot wrap compressed file ({kind}). Wrap only works with uncompressed .tar or .zip files.")
    infos = list((_zip_places if src_path.lower().endswith(".zip") else _tar_places)(src_path))
    if overwrite:
        misc.remove(target_path)
    with Index(target_path, readonly=False) as index:
        for info in sorted(infos, key=lambda info: info.isdir()):  # files first: they touch their directories
            if isinstance(info, BarecatDirInfo):
                index.add_dir(info, exist_ok=True)
            else:
                index.add(info)
    os.symlink(os.path.abspath(src_path), f"{target_path}-shard-00000")


def _tar_places(path: str) -> Iterator[BarecatEntryInfo]:
    for entry in read_entries(path, []):
        if entry.is_dir:
            yield BarecatDirInfo(entry.name, *entry.about)
        elif entry.offset is not None:
            yield BarecatFileInfo(entry.name, *entry.about, shard=0, offset=entry.offset, size=entry.size)


def _zip_places(path: str) -> Iterator[BarecatEntryInfo]:
    size = os.path.getsize(path)
    with open(path, "rb") as file, zipfile.ZipFile(path) as archive:
        for member in archive.infolist():
            name, mode = safe_name(member.filename), stat.S_IMODE(member.external_attr >> 16) or None
            if member.compress_type != zipfile.ZIP_STORED:
                hint = "Use 'zip -0' to create uncompressed ZIP, or convert without --wrap."
                raise ValueError(f"ZIP has compressed entries. {hint}")
            if member.flag_bits & 1:
                raise ValueError("ZIP has encrypted entries. Cannot wrap encrypted ZIP files.")
            if member.is_dir():
                yield BarecatDirInfo(name, mode)
                continue
            file.seek(member.header_offset + 26)
            lengths = file.read(4)  # of the name and of more facts, which stand before the content
            offset = member.header_offset + 30 + sum(struct.unpack("<HH", lengths.ljust(4, b"\xff")))
            if offset + member.file_size > size:
                raise ValueError(f"{path}: {name} lies outside of the file")
            yield BarecatFileInfo(name, mode, shard=0, offset=offset, size=member.file_size)


def print_ncdu_json(path: PathLike) -> None:
    """Sizes of everything, for ``ncdu -f``."""
    head = {"progname": "barecat", "progver": version, "timestamp": time.time()}
    print(f"[1,1,{json.dumps(head)},")
    with Index(resolve_index_path(path)) as index:
        _print_ncdu_dir(index, "")
    print("]")


def _print_ncdu_dir(index: Index, path: str) -> None:
    name = path.rpartition("/")[2] or "/"
    print("[" + json.dumps({"name": name, "asize": 4096, "ino": 0}), end="")
    for info in index.list_direct_fileinfos(path):
        size, last = info.size, info.path.rpartition("/")[2]
        print("," + json.dumps({"name": last, "asize": size, "dsize": size, "ino": 0}), end="")
    for directory in index.list_subdir_dirinfos(path):
        print(",")
        _print_ncdu_dir(index, directory.path)
    print("]", end="")


def write_index(dictionary: dict[str, tuple[int, int, int]], target_path: PathLike) -> None:
    """Make an index from a dict of paths to (shard, offset, size)."""
    misc.deprecate("barecat.write_index()", "'barecat.Index' class directly instead.", end="")
    with Index(target_path, readonly=False) as index:
        for path, (shard, offset, size) in dictionary.items():
            index.add_file(BarecatFileInfo(path=path, shard=shard, offset=offset, size=size))


def read_index(path: PathLike) -> dict[str, tuple[int | None, int | None, int | None]]:
    """An index as a dict of paths to (shard, offset, size)."""
    misc.deprecate("barecat.read_index()", "'barecat.Index' class directly instead.", end="")
    with Index(path) as index:
        return {info.path: (info.shard, info.offset, info.size) for info in index.iter_all_fileinfos()}
