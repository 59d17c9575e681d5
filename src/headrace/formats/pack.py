"""``headrace.pack``: a folder tree of pictures into one file."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import BrokenPicturesError, WriteError
from headrace.fields import Image
from headrace.formats.contract import normalize_indices
from headrace.formats.folder import FolderDataset
from headrace.formats.local_target import local_target, target_path
from headrace.formats.open import find_format
from headrace.formats.report import Transfer
from headrace.formats.write import BROKEN, BrokenSamples, fill
from headrace.progress import ProgressBar, format_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.formats.contract import Format
    from headrace.types import Dataset, IndexArray, Progress

__all__ = ["broken_lines", "describe_fields", "pack"]

_TRIED = 64  # pictures that an estimate is made from


def pack(
    path: PathLike,
    folder: PathLike,
    *,
    image: Image | None = None,
    workers: int | None = None,
    shuffle_seed: int | None = None,
    skip_broken: bool = False,
    dry_run: bool = False,
    force: bool = False,
    storage_options: Mapping[str, Any] | None = None,
    progress: Progress | bool = False,
    **options: Any,
) -> Transfer:
    """Pack all pictures below a folder into one file, or all files where the format holds files.

    The first directory below the folder becomes the label, the relative path the sample's name. JPEG files that
    need no shrinking go in byte for byte. Into an .ffr or a .barecat go all files of any kind, byte for byte; what is
    said about pictures does not apply there.

    Args:
        path: the file to write, a path or a URL; it comes first, as in ``write``.
        folder: where the pictures are.
        image: how pictures are stored; by default as JPEG.
        workers: threads; by default one for each core.
        shuffle_seed: store the samples in an order shuffled with this seed.
        skip_broken: leave out pictures that cannot be stored; by default they are an error that names all of them.
        dry_run: write nothing, and say what would be written; the size is estimated from a few pictures.
        force: replace a file that exists, as in ``write``.
        storage_options: how the store of a URL is reached, see ``headrace.open``.
        progress: True for a progress bar, or a function to call with (done, total, size_bytes).
        **options: what the format's writer takes, and ``indices`` as for ``write``.

    Returns:
        How many samples or files were written, what was left out and why, and which pictures are broken.

    Raises:
        FileExistsError: there is something under the path already.
        BrokenPicturesError: pictures cannot be stored; nothing was written.

    Example:
        >>> import pathlib, tempfile, numpy as np, headrace
        >>> from headrace.codecs import jpeg
        >>> place = pathlib.Path(tempfile.mkdtemp())
        >>> (place / "in").mkdir()
        >>> _ = (place / "in" / "a.jpg").write_bytes(jpeg.encode(np.zeros((8, 8, 3), np.uint8)))
        >>> _ = (place / "in" / "b.jpg").write_bytes(b"")
        >>> _ = (place / "in" / "notes.txt").write_text("hello")
        >>> done = headrace.pack(place / "x.beton", place / "in", skip_broken=True)
        >>> done.samples, done.skipped, done.broken
        (1, ['notes.txt: not a picture by its ending'], ['b.jpg: it is empty'])
    """
    target = find_format(path, must_exist=False)
    where, is_free = target_path(path, storage_options), force or dry_run
    with local_target(where, force=is_free, progress=progress, is_dry=dry_run) as place:
        target.check_new(place, force=is_free)
        return _pack(
            target,
            place,
            folder,
            image=image,
            workers=workers,
            shuffle_seed=shuffle_seed,
            skip_broken=skip_broken,
            dry_run=dry_run,
            progress=progress,
            options=options,
        )


def _pack(
    target: Format,
    path: str,
    folder: PathLike,
    *,
    image: Image | None,
    workers: int | None,
    shuffle_seed: int | None,
    skip_broken: bool,
    dry_run: bool,
    progress: Progress | bool,
    options: dict[str, Any],
) -> Transfer:
    if target.pack is not None:
        known = {name: options.pop(name) for name in target.pack_options if name in options}
        pictures = {"image": image if image != Image() else None, "shuffle_seed": shuffle_seed}
        _refuse(path, pictures | {"skip_broken": "given" if skip_broken else None} | options)
        if dry_run:
            if "dry_run" not in target.pack_options:
                raise ValueError(f"{os.fspath(path)}: a {target.name} cannot say beforehand what would be written")
            known["dry_run"] = True
        with ProgressBar("packing") if progress is True else contextlib.nullcontext(progress) as report:
            return target.pack(folder=folder, path=path, progress=report or None, **known) or Transfer()
    source = FolderDataset(folder, image=image)
    result = Transfer(skipped=source.left_out, fields=describe_fields(source))
    indices = options.pop("indices", None)
    if dry_run:
        chosen = np.arange(len(source)) if indices is None else normalize_indices(indices, len(source))
        return _estimate(source, chosen, result)
    has_annex = options.get("annex", True)
    about = {
        "class_names": source.class_names,
        "metadata": {"packed_from": os.path.basename(os.path.abspath(folder))},
    }
    given: dict[str, Any] = {
        name: value for name, value in about.items() if has_annex and name in target.writer_options
    }
    given |= {name: value for name, value in options.items() if value is not None}
    broken = BrokenSamples(is_skipped=skip_broken)
    try:
        result.samples = fill(
            lambda length: target.create_checked(path, source.schema, length=length, **given),
            source.sources(),
            label=f"writing {os.path.basename(path)}",
            workers=workers,
            worker_kind="thread",
            indices=indices,
            shuffle_seed=shuffle_seed,
            names=source.keys if has_annex else None,
            broken=broken,
            progress=progress,
        )
    except WriteError as error:
        if not broken.found:
            raise
        lines = broken_lines(source.path, source.keys, broken.found)
        raise BrokenPicturesError(folder, broken=lines, total=len(source)) from error.__cause__
    result.broken = broken_lines(source.path, source.keys, broken.found)
    result.size_bytes = target.size_bytes(path)
    return result


def broken_lines(path: str, keys: Sequence[str] | None, broken: Mapping[int, WriteError]) -> list[str]:
    """A line for each sample that cannot be stored: its name, and what is wrong with it.

    Args:
        path: of what the samples come from; in a folder, their names are those of files.
        keys: names of the samples, if they have some.
        broken: what went wrong, by the number of the sample.
    """
    lines = []
    for number, error in sorted(broken.items()):
        key, cause = f"sample {number}" if keys is None else keys[number], error.__cause__
        is_empty = _size_of(os.path.join(path, key)) == 0
        reason = getattr(cause, "strerror", None) or cause
        lines.append(f"{key}: {'it is empty' if is_empty else reason}")
    return lines


def _size_of(path: str) -> int | None:
    try:
        return os.stat(path).st_size
    except OSError:
        return None


def _estimate(source: FolderDataset, chosen: IndexArray, result: Transfer) -> Transfer:
    """What would be written, by a few pictures that are spread over all of them."""
    image, sizes = source.schema["image"], []
    broken: dict[int, WriteError] = {}
    for number in chosen[:: max(1, len(chosen) // _TRIED)].tolist():
        try:
            encoded = image.encode(os.path.join(source.path, source.keys[number]), number)
            sizes.append(len(encoded.payload or b""))
        except BROKEN as error:
            broken[number] = WriteError(str(error))
            broken[number].__cause__ = error
    result.samples, result.broken = len(chosen), broken_lines(source.path, source.keys, broken)
    result.size_bytes = sum(sizes) * len(chosen) // max(1, len(sizes))
    return result


def describe_fields(source: Dataset) -> dict[str, str]:
    """What each field holds, in a few words."""
    described = {}
    for name, kind in source.schema.items():
        classes = source.class_names.get(name)
        described[name] = kind.kind if classes is None else f"{kind.kind}, {format_count(len(classes), 'class')}"
    return described


def _refuse(path: PathLike, options: dict[str, Any]) -> None:
    # Switches only say what is left out of an annex, which there is none of here.
    given = [name for name, value in options.items() if value is not None and not isinstance(value, bool)]
    if given:
        raise ValueError(f"{os.fspath(path)} takes files as they are; leave out {', '.join(given)}")
