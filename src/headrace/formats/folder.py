"""A folder tree of pictures as a dataset: class from the first directory, name from the path."""

from __future__ import annotations

import logging
import os
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace._native import crc32c
from headrace.codecs.image import SUFFIXES
from headrace.errors import CorruptSampleError, FormatError, ImageError
from headrace.fields import Image, Int
from headrace.formats.contract import BaseDataset, Format, index_chunks, normalize_indices
from headrace.formats.report import Found, check_all
from headrace.storage import note_left_out, open_for_reading, open_stream, walk_folder
from headrace.types import Place, Problem, Sample

if TYPE_CHECKING:
    from collections.abc import Mapping

    import numpy.typing as npt

    from headrace.errors import PathLike
    from headrace.types import Field, IndexArray, Indices, Progress, Report, Source

__all__ = ["FORMAT", "NO_PICTURE", "FolderDataset"]

_log = logging.getLogger("headrace")
NO_PICTURE = "not a picture by its ending"
"""Why most files are left out."""
_HIDDEN = "hidden"
_CHUNK = 8  # pictures that a thread checks at a time


class FolderDataset(BaseDataset):
    """All pictures below a folder, sorted by path.

    The label is the number of the first directory below the folder, in sorted order; pictures that lie in the
    folder itself have no class, and then no sample gets a label. Links to pictures and to folders are followed; a link
    that leads back to where it lies, or to something that is no regular file, is left out. Files that are hidden or no
    pictures by their endings do not count.

    Args:
        path: the folder.
        image: how pictures are decoded, and stored when they are packed.

    Attributes:
        left_out: a line for each thing that is no sample, with the reason.
    """

    def __init__(self, path: PathLike, *, image: Image | None = None) -> None:
        self._path = os.fspath(path)
        if not os.path.isdir(self._path):
            raise NotADirectoryError(f"{self._path} is not a folder")
        self.left_out: list[str] = []
        self._keys = _find_pictures(self._path, self.left_out)
        if not self._keys:
            raise FormatError(
                self._path,
                problem="no pictures are below this folder",
                fix=f"Known endings are {', '.join(sorted(SUFFIXES))}.",
            )
        has_classes = all(os.sep in key for key in self._keys)
        folders = [key.partition(os.sep)[0] for key in self._keys] if has_classes else []
        self._classes = sorted(set(folders))
        numbers = {name: i for i, name in enumerate(self._classes)}
        self._labels = [numbers[name] for name in folders]
        schema: dict[str, Field] = {"image": image or Image()}
        if has_classes:
            schema["label"] = Int()
        self._schema = MappingProxyType(schema)

    @property
    def path(self) -> str:
        """The folder."""
        return self._path

    @property
    def schema(self) -> Mapping[str, Field]:
        """``image``, and ``label`` when there are classes."""
        return self._schema

    @property
    def keys(self) -> list[str]:
        """Paths of the pictures, relative to the folder."""
        return self._keys

    @property
    def class_names(self) -> dict[str, list[str]]:
        """Names of the classes by field, empty when there are none."""
        return {"label": self._classes} if self._classes else {}

    def __len__(self) -> int:
        return len(self._keys)

    @property
    def reading(self) -> str:
        """How the bytes are read, in words."""
        return "from the file of each picture"

    @property
    def fingerprint(self) -> int:
        """32 bits that change when the pictures are others."""
        return crc32c("\0".join(self._keys).encode("utf-8", "surrogateescape"))

    def sources(self) -> list[tuple[Any, ...]]:
        """(path,) or (path, label) of each picture: what a writer takes without decoding anything here."""
        paths = [os.path.join(self._path, key) for key in self._keys]
        return list(zip(paths, self._labels, strict=True)) if self._labels else [(path,) for path in paths]

    def _samples(self, indices: IndexArray) -> list[Sample]:
        names = tuple(self._schema)
        samples = []
        for i in indices.tolist():
            label = (self._labels[i],) if self._labels else ()
            samples.append(Sample(names, (self._decode(i), *label)))
        return samples

    def read_values(
        self, indices: IndexArray, field: str, source: Source | None = None
    ) -> list[Any] | npt.NDArray[Any]:
        """Decoded pictures, or labels without touching the pictures."""
        if field == "label" and self._labels:
            return np.array(self._labels, np.int64)[indices]
        return super().read_values(indices, field)

    def _decode(self, index: int) -> Any:
        picture = Image(mode="raw", background=getattr(self._schema["image"], "background", None))
        path = os.path.join(self._path, self._keys[index])
        try:
            encoded = picture.encode(path, index)
        except ImageError as error:
            raise CorruptSampleError(path, sample=index, field="image", problem=str(error)) from error
        return picture.decode(encoded.facts, memoryview(encoded.payload or b""))

    def place_of(self, index: int, field: str) -> Place | None:
        """The whole file of a picture; a label is the name of a folder."""
        if field != "image":
            return None
        path = os.path.join(self._path, self._keys[index])
        return Place(path, 0, os.stat(path).st_size)

    def read_bytes(self, indices: Indices, field: str) -> list[bytes]:
        """Read whole image files."""
        if field != "image":
            raise ValueError(f"field {field!r} has no stored bytes; only 'image' has")
        values = []
        for i in normalize_indices(indices, len(self)).tolist():
            with open_stream(os.path.join(self._path, self._keys[i])) as file:
                values.append(file.read())
        return values

    def verify(self, *, decode: bool = False, workers: int | None = None, progress: Progress | None = None) -> Report:
        """Check that every file can be read; with ``decode`` also that it is a picture."""
        found = check_all(
            lambda indices: self._check(indices, decode),
            len(self),
            workers=workers,
            progress=progress,
            chunks=index_chunks(len(self), _CHUNK),
        )
        return found.report(self._path)

    def _check(self, indices: IndexArray, decode: bool) -> Found:
        found = Found(samples=len(indices), images=len(indices) if decode else 0)
        for i in indices.tolist():
            try:
                if decode:
                    self._decode(i)
                fd = open_for_reading(os.path.join(self._path, self._keys[i]), nofollow=False)
                try:
                    found.size_bytes += os.fstat(fd).st_size
                finally:
                    os.close(fd)
            except (OSError, FormatError, CorruptSampleError) as error:
                found.problems.append(Problem(sample=i, field="image", message=str(error)))
        return found


def _find_pictures(folder: str, left_out: list[str]) -> list[str]:
    """Paths of all pictures, relative to the folder and sorted; hidden files and folders do not count."""

    def is_wanted(name: str, is_dir: bool) -> bool:
        last = name.rpartition("/")[2]
        stem, dot, ending = last.rpartition(".")
        if last.startswith("."):
            left_out.append(f"{name}: {_HIDDEN}")
            return False
        if is_dir or (stem and dot + ending.lower() in SUFFIXES):
            return True
        left_out.append(f"{name}: {NO_PICTURE}")
        return False

    def leave_out(path: str, reason: str) -> None:
        left_out.append(f"{os.path.relpath(path, folder)}: {reason}")

    below = walk_folder(folder, follow_links=True, on_problem=leave_out, is_wanted=is_wanted)
    return sorted(one.name for one in below if not one.is_dir)


def _open_folder(path: PathLike, *, image: Image | None = None) -> FolderDataset:
    """Open a folder; the log says what could not be followed or read."""
    dataset = FolderDataset(path, image=image)
    problems = [line for line in dataset.left_out if not line.endswith((f": {_HIDDEN}", f": {NO_PICTURE}"))]
    if problems:
        _log.warning("%s: %s", dataset.path, note_left_out(problems))
    return dataset


FORMAT = Format(
    name="folder",
    suffixes=(),
    matches=lambda path, head: os.path.isdir(path),
    open=_open_folder,
    holds_files=True,
    size_bytes=lambda path: FolderDataset(path).verify().size_bytes,
)
