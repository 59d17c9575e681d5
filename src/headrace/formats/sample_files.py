"""Samples as files, for archives, tars, zips and folders.

A sample becomes one file for each field that has bytes: pictures as JPEG (raw pixels as PNG), text as .txt, JSON as
.json, arrays as .npy, bytes as they are. Files of one sample share what stands before the first dot. An Int field
``label`` is no file: the first directory is the class, as a dataset of files reads it.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace.codecs.image import SUFFIXES
from headrace.errors import WriteError
from headrace.fields import Image, Int
from headrace.formats.contract import BaseWriter, values_in_order
from headrace.formats.entry_names import safe_name
from headrace.formats.values import encode_value, ending_of
from headrace.progress import format_count
from headrace.types import Field

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

__all__ = ["FileChunk", "FileEncoder", "SampleFiles", "SampleFilesWriter", "check_file_fields"]

_LABEL = "label"
_LABEL_FIX = (
    "The label of a sample in an archive is the number of its first directory among all of them, sorted; "
    "leave the label out, or number the classes so"
)


@dataclass(frozen=True, slots=True)
class FileChunk:
    """Consecutive samples as files, each with its ending, and their labels."""

    files: list[list[tuple[str, bytes]]]
    labels: list[int] | None

    def __len__(self) -> int:
        return len(self.files)

    @property
    def sizes(self) -> npt.NDArray[np.uint64]:
        """Bytes of each sample."""
        return np.array([[sum(len(data) for _, data in sample)] for sample in self.files], np.uint64)


@dataclass(frozen=True, slots=True)
class FileEncoder:
    """Encodes samples; picklable, without state, safe in any thread."""

    fields: dict[str, Field]
    endings: dict[str, str]

    def __call__(self, samples: Iterable[Any], *, first_index: int) -> FileChunk:
        """Encode samples that will stand from ``first_index`` on."""
        files, labels = [], []
        for index, sample in enumerate(samples, first_index):
            row: list[tuple[str, bytes]] = []
            for name, value in zip(self.fields, values_in_order(sample, list(self.fields), index), strict=True):
                if name == _LABEL and name not in self.endings:
                    labels.append(self._label(value, index))
                else:
                    row.append(self._encode(name, value, index))
            files.append(row)
        return FileChunk(files, labels if _LABEL in self.fields and _LABEL not in self.endings else None)

    def _label(self, value: Any, index: int) -> int:
        try:
            return int(Int().encode(value, index).facts[0])
        except Exception as error:
            raise WriteError(
                f"sample {index}, field {_LABEL!r}: {type(error).__name__}: {error}", sample=index
            ) from error

    def _encode(self, name: str, value: Any, index: int) -> tuple[str, bytes]:
        ending = self.endings[name]
        try:
            usual, data = encode_value(self.fields[name], value, index)
        except Exception as error:
            problem = f"sample {index}, field {name!r}: {type(error).__name__}: {error}"
            raise WriteError(problem, sample=index) from error
        is_picture = isinstance(self.fields[name], Image)
        return (ending.removesuffix("jpg") + usual if is_picture else ending), data


def _choose_endings(fields: Mapping[str, Field]) -> dict[str, str]:
    """For each field that becomes a file, what its names end in; no two are the same."""
    usual = {}
    for name, field in fields.items():
        if isinstance(field, type) or not isinstance(field, Field):
            raise TypeError(f"fields[{name!r}] must be a field such as Bytes(), got {field!r}")
        if name == _LABEL and isinstance(field, Int):
            continue
        if not field.has_payload:
            raise ValueError(
                f"fields[{name!r}] is a number ({field.kind}), and an archive holds files; make it part of a Json "
                "field, or leave it out"
            )
        usual[name] = ending_of(field)
    if not usual:
        raise ValueError("there is no field that could become a file; an archive needs one that has bytes")
    if len(usual) == 1:
        return {name: ending or "bin" for name, ending in usual.items()}
    counts = list(usual.values())
    plain = {name: name.replace("/", ".") for name in usual}  # a slash would make folders of one sample's files
    chosen = {
        name: plain[name] if not ending else ending if counts.count(ending) == 1 else f"{plain[name]}.{ending}"
        for name, ending in usual.items()
    }
    by_ending: dict[str, str] = {}
    for name, ending in chosen.items():
        if by_ending.setdefault(ending, name) != name:
            raise ValueError(f"{by_ending[ending]} and {name} would be files of the same name; give one another name")
    return chosen


def check_file_fields(fields: Mapping[str, Field]) -> None:
    """ValueError when samples of such fields cannot become files."""
    _choose_endings(fields)


class SampleFiles:
    """Turns encoded samples into files with names: of their own, or made up, below the directories of their classes.

    Args:
        fields: fields that have bytes, and at most one number: an Int field called ``label``.
        length: number of samples, if known: names that are made up then sort as numbers, however many there are.
        class_names: ``{"label": [...]}``, names of the directories; by default numbers.
    """

    def __init__(
        self, fields: Mapping[str, Field], *, length: int | None, class_names: Mapping[str, Sequence[str]] | None
    ) -> None:
        self.encoder = FileEncoder(dict(fields), _choose_endings(fields))
        self.count = 0
        self._classes = (class_names or {}).get(_LABEL)
        self._digits = max(8, len(str(length or 0)))
        self._labels: dict[str, int] = {}

    def files_of(self, chunk: FileChunk, names: Sequence[str] | None) -> Iterator[tuple[str, bytes]]:
        """Paths and contents of the next samples."""
        for position, files in enumerate(chunk.files):
            name = safe_name(names[position]) if names is not None else f"sample-{self.count:0{self._digits}d}"
            if chunk.labels is not None:
                name = self._below_class(name, chunk.labels[position])
            for ending, data in files:
                yield _file_name(name, ending, is_alone=len(files) == 1, is_named=names is not None), data
            self.count += 1

    def _below_class(self, name: str, label: int) -> str:
        """The name in the directory of its class, where it is already if it has directories."""
        directory, slash, _ = name.partition("/")
        if not slash:
            directory = self._class_name(label)
            name = f"{directory}/{name}"
        if self._labels.setdefault(directory, label) != label:
            other = self._labels[directory]
            raise ValueError(f"{name} has the label {label}, and others in {directory} have {other}. {_LABEL_FIX}")
        return name

    def _class_name(self, label: int) -> str:
        if self._classes is None:
            return f"{label:05d}"  # sorted as numbers are
        if not 0 <= label < len(self._classes):
            raise ValueError(f"label {label} has no name; class_names has {format_count(len(self._classes), 'entry')}")
        return safe_name(self._classes[label]).replace("/", "_")

    def check_labels(self) -> None:
        """Raise ValueError if a label would be read back as another number."""
        for number, directory in enumerate(sorted(self._labels)):
            label = self._labels[directory]
            if label != number:
                raise ValueError(f"label {label} ({directory}) would be read back as {number}. {_LABEL_FIX}")


class SampleFilesWriter(BaseWriter):
    """What writers of samples as files have in common; subclasses store the files.

    Args:
        fields: fields that have bytes, and at most one number: an Int field called ``label``.
        length: number of samples, if known: names that are made up then sort as numbers, however many there are.
        class_names: ``{"label": [...]}``, names of the directories; by default numbers.
    """

    def __init__(
        self, fields: Mapping[str, Field], *, length: int | None, class_names: Mapping[str, Sequence[str]] | None
    ) -> None:
        self._files = SampleFiles(fields, length=length, class_names=class_names)
        self.encoder = self._files.encoder
        self._size_bytes = 0

    def __len__(self) -> int:
        """Samples taken so far."""
        return self._files.count

    @property
    def size_bytes(self) -> int:
        """Bytes of the samples taken so far."""
        return self._size_bytes

    def append(self, sample: Any, *, name: str | None = None) -> None:
        """Add one sample."""
        chunk = self.encoder([sample], first_index=len(self))
        self.append_chunk(chunk, names=None if name is None else [name])

    def append_chunk(self, chunk: FileChunk, *, names: Sequence[str] | None = None) -> None:
        """Add samples that ``encoder`` has encoded, and their names; chunks must come in order."""
        for path, data in self._files.files_of(chunk, names):
            self._put(path, data)
            self._size_bytes += len(data)

    @abstractmethod
    def _put(self, path: str, data: bytes) -> None:
        """Store a file."""

    @abstractmethod
    def _finish(self) -> None:
        """All files are stored."""

    def close(self) -> None:
        """Finish what was written and give it its name."""
        try:
            self._files.check_labels()
            self._finish()
        except BaseException:
            self.abort()
            raise


def _file_name(name: str, ending: str, *, is_alone: bool, is_named: bool = True) -> str:
    """The name of a sample with the ending that its content needs; bytes keep the name that was given.

    Example:
        >>> _file_name("a/1.jpeg", "jpg", is_alone=True), _file_name("a/1.png", "jpg", is_alone=True)
        ('a/1.jpeg', 'a/1.jpg')
        >>> _file_name("a/1.x.y", "json", is_alone=False), _file_name("notes.md", "bin", is_alone=True)
        ('a/1.json', 'notes.md')
    """
    directory, slash, last = name.rpartition("/")
    stem, dot, old = last.rpartition(".")
    if not is_alone:
        return f"{directory}{slash}{last.partition('.')[0]}.{ending}"
    is_right = old.lower() == ending or (old.lower() in ("jpeg", "jpe") and ending == "jpg")
    if is_right or (ending == "bin" and is_named):
        return name
    is_other_picture = dot and f".{old.lower()}" in SUFFIXES and f".{ending}" in SUFFIXES
    return f"{directory}{slash}{stem if is_other_picture else last}.{ending}"
