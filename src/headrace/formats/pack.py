"""``headrace.pack``: a folder tree of pictures into one file."""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from headrace.fields import Image
from headrace.formats.folder import FolderDataset
from headrace.formats.open import find_format
from headrace.formats.write import write
from headrace.progress import ProgressBar

if TYPE_CHECKING:
    from headrace.errors import PathLike
    from headrace.types import Progress

__all__ = ["pack"]


def pack(
    path: PathLike,
    folder: PathLike,
    *,
    image: Image | None = None,
    workers: int | None = None,
    shuffle_seed: int | None = None,
    progress: Progress | bool = False,
    **options: Any,
) -> None:
    """Pack all pictures below a folder into one file, or all files where the format holds files.

    The first directory below the folder becomes the label, the relative path the sample's name. JPEG files that
    need no shrinking go in byte for byte. Into an .ffr or a .barecat go all files of any kind, byte for byte; what is
    said about pictures does not apply there.

    Args:
        path: the file to write; it comes first, as in ``write``.
        folder: where the pictures are.
        image: how pictures are stored; by default as JPEG.
        workers: threads; by default one for each core.
        shuffle_seed: store the samples in an order shuffled with this seed.
        progress: True for a progress bar, or a function to call with (done, total, size_bytes).
        **options: what the format's writer takes.
    """
    target = find_format(path, must_exist=False)
    if target.pack is not None:
        known = {name: options.pop(name) for name in target.pack_options if name in options}
        _refuse(path, {"image": image if image != Image() else None, "shuffle_seed": shuffle_seed, **options})
        with ProgressBar("packing") if progress is True else contextlib.nullcontext(progress) as report:
            target.pack(folder=folder, path=path, progress=report or None, **known)
        return
    source = FolderDataset(folder, image=image)
    has_annex = options.get("annex", True)
    about = {
        "class_names": source.class_names,
        "metadata": {"packed_from": os.path.basename(os.path.abspath(folder))},
    }
    given: dict[str, Any] = {
        name: value for name, value in about.items() if has_annex and name in target.writer_options
    }
    write(
        path,
        source.sources(),
        fields=source.schema,
        workers=workers,
        worker_kind="thread",
        shuffle_seed=shuffle_seed,
        names=source.keys if has_annex else None,
        progress=progress,
        **(given | {name: value for name, value in options.items() if value is not None}),
    )


def _refuse(path: PathLike, options: dict[str, Any]) -> None:
    # Switches only say what is left out of an annex, which there is none of here.
    given = [name for name, value in options.items() if value is not None and not isinstance(value, bool)]
    if given:
        raise ValueError(f"{os.fspath(path)} takes files as they are; leave out {', '.join(given)}")
