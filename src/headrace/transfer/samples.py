"""``convert``: a dataset of one format into a file of another."""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from headrace.codecs.image import SUFFIXES
from headrace.fields import Image
from headrace.formats.contract import BaseDataset
from headrace.formats.open import find_format, open_dataset
from headrace.formats.write import write

if TYPE_CHECKING:
    from headrace.errors import PathLike
    from headrace.types import Dataset, Field, Progress

__all__ = ["convert"]


def convert(
    source: PathLike,
    path: PathLike,
    *,
    field: str | None = None,
    decode: str | None = None,
    names: bool = True,
    workers: int | None = None,
    shuffle_seed: int | None = None,
    progress: Progress | bool = False,
    **options: Any,
) -> None:
    """Write the samples of a dataset into a file of another format; it appears when it is complete, or not at all.

    JPEG pictures and bytes are copied as they are stored. A packed folder whose files are all pictures becomes a
    dataset with an ``image`` field; samples with names become a packed folder in an .ffr. Between an .ffr and a
    .barecat go all files, byte for byte.

    Args:
        source: what to convert.
        path: the file to write; its ending decides the format.
        field: only this field. Needed when the source has several and the new file can hold one.
        decode: what the samples of an .ffr are, see ``FfrDataset``; by default pictures where all names say so and
            the new file is a .beton, and bytes otherwise. Of a .barecat, ``"bytes"`` takes all files as they are.
        names: keep the names of the samples.
        workers: threads; by default one for each core.
        shuffle_seed: store the samples in an order shuffled with this seed.
        progress: True for a progress bar, or a function to call with (done, total, size_bytes).
        **options: what the new format's writer takes.

    Example:
        >>> import os, tempfile, headrace
        >>> folder = tempfile.mkdtemp()
        >>> old, new = os.path.join(folder, "x.ffr"), os.path.join(folder, "x.beton")
        >>> headrace.write(old, [b"abc", b"d"], fields={"data": headrace.Bytes()})
        >>> convert(old, new)
        >>> headrace.open(new)[0]
        Sample(data=b'abc')
    """
    dataset = _open(source, decode, find_format(path, must_exist=False).name)
    if os.path.exists(path) and os.path.samefile(dataset.path, path):
        raise ValueError(f"{os.fspath(path)} is the source itself; name another file")
    fields = _choose_fields(dataset, field, path)
    position = None if len(fields) == len(dataset.schema) else list(dataset.schema).index(next(iter(fields)))
    stored = dataset.sources() if isinstance(dataset, BaseDataset) else dataset
    write(
        path,
        _Samples(stored, position),
        fields=fields,
        workers=workers,
        worker_kind="thread",
        shuffle_seed=shuffle_seed,
        names=list(dataset.keys) if names and dataset.keys is not None else None,
        progress=progress,
        **_class_names(dataset, fields, path),
        **options,
    )


def _class_names(dataset: Dataset, fields: dict[str, Field], path: PathLike) -> dict[str, Any]:
    """Names of classes, for formats that take them."""
    known = {name: names for name, names in getattr(dataset, "class_names", {}).items() if name in fields}
    return {"class_names": known} if known and find_format(path, must_exist=False).name != "ffr" else {}


def _open(source: PathLike, decode: str | None, target: str) -> Dataset:
    kind = find_format(source).name
    if decode is not None:
        if kind not in ("ffr", "barecat"):
            raise ValueError(f"decode is for .ffr and .barecat; {os.fspath(source)} says itself what its samples are")
        return open_dataset(source, decode=decode)
    if kind == "barecat" and target == "ffr":
        return open_dataset(source, decode="bytes")
    dataset = open_dataset(source)
    is_pictures = dataset.keys and all(os.path.splitext(key)[1].lower() in SUFFIXES for key in dataset.keys)
    if kind == "ffr" and target == "beton" and is_pictures:
        return open_dataset(source, decode="image")
    return dataset


def _choose_fields(dataset: Dataset, field: str | None, path: PathLike) -> dict[str, Field]:
    schema = dict(dataset.schema)
    if field is not None and field not in schema:
        raise KeyError(f"no field {field!r} in {dataset.path}; the fields are {', '.join(schema)}")
    chosen = schema if field is None else {field: schema[field]}
    if find_format(path, must_exist=False).name != "ffr":
        return chosen
    if len(chosen) > 1:
        names = ", ".join(chosen)
        raise ValueError(f"{os.fspath(path)} can hold one field; say which by field (--field): one of {names}")
    # Without its size a raw picture means nothing.
    return {name: replace(kind, mode="jpg") if isinstance(kind, Image) else kind for name, kind in chosen.items()}


@dataclass(frozen=True, slots=True)
class _Samples:
    """Samples without names; with a position only one value of each."""

    samples: Any
    position: int | None

    def __len__(self) -> int:
        return len(self.samples)

    def __getitem__(self, index: int) -> Any:
        sample = self.samples[index]
        return sample if self.position is None else (sample[self.position],)
