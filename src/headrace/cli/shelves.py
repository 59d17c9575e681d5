"""What ``headrace browse`` looks at: the directories of an archive, or the samples of a dataset."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.cli.common import printable, select_ranges
from headrace.cli.files import value_as_file
from headrace.cli.previews import Preview, describe_file, describe_sample
from headrace.formats.barecat.index.rows import FileInfo
from headrace.progress import format_bytes, format_count
from headrace.storage import FolderWriter
from headrace.transfer.extract import extract_files

if TYPE_CHECKING:
    from headrace.codecs.small_picture import Box
    from headrace.formats.barecat import Archive, DirInfo
    from headrace.types import Dataset

__all__ = ["ArchiveShelf", "DatasetShelf", "Entry", "Shelf"]

_BAR = 10
_PAGE = 1000  # samples in one list


class Entry(NamedTuple):
    """One line of a list: what is shown, and what it stands for."""

    name: str
    place: str
    is_dir: bool
    cells: tuple[str, ...]


class Shelf(Protocol):
    """Lists that lead to other lists; places are texts, and the first is empty."""

    title: str
    columns: tuple[str, ...]

    def entries(self, place: str, *, by_size: bool) -> list[Entry]:
        """What is in a place."""

    def about(self, place: str) -> str:
        """A place in a few words."""

    def above(self, place: str) -> tuple[str, str]:
        """The place that a place is in, and its name there."""

    def preview(self, entry: Entry, box: Box) -> Preview:
        """What is in an entry; a picture fits into a box of columns and rows of pixels."""

    def extract(self, entry: Entry) -> str:
        """Write an entry below the current directory of the machine; says what was written."""


class ArchiveShelf:
    """The directories of an archive.

    Args:
        archive: open for reading.
    """

    columns: tuple[str, ...] = ("size", "share", "name")

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self.title = printable(archive.path)

    def entries(self, place: str, *, by_size: bool) -> list[Entry]:
        """Directories first, or the largest."""
        infos = list(self._archive.scandir(place))
        infos.sort(key=lambda info: (-_size(info), info.name) if by_size else (info.is_file(), info.name))
        total = max(sum(map(_size, infos)), 1)
        return [self._entry(info, total) for info in infos]

    def _entry(self, info: FileInfo | DirInfo, total: int) -> Entry:
        bar = "#" * max(0, min(_BAR, round(_BAR * _size(info) / total)))  # sizes may be made up
        shown = printable(info.name) + ("/" if info.is_dir() else "")
        return Entry(info.name, info.path, info.is_dir(), (format_bytes(_size(info)), bar, shown))

    def about(self, place: str) -> str:
        """The path and its size."""
        return f"/{printable(place)} ({format_bytes(_size(self._archive.stat(place)))})"

    def above(self, place: str) -> tuple[str, str]:
        """The directory above."""
        parent, _, name = place.rpartition("/")
        return parent, name

    def preview(self, entry: Entry, box: Box) -> Preview:
        """What a file holds, or how much a directory."""
        info = self._archive.stat(entry.place)
        if isinstance(info, FileInfo):
            return describe_file(self._archive, info, box=box)
        facts = f"{format_count(info.num_subdirs, 'directory')}, {format_count(info.num_files, 'file')} directly in it"
        whole = f"{format_count(info.num_files_tree, 'file')}, {format_bytes(info.size_tree)} in all"
        return Preview([printable(info.name) + "/", facts, whole])

    def extract(self, entry: Entry) -> str:
        """A file, or a directory with all below."""
        result = extract_files(self._archive, ".", [entry.place])
        return f"{format_count(result.files, 'file')} written to {printable(entry.place)}"


def _size(info: FileInfo | DirInfo) -> int:
    return info.size if isinstance(info, FileInfo) else info.size_tree


class DatasetShelf:
    """The samples of a dataset; very many of them lie in stretches, which are opened as directories are.

    Args:
        dataset: of any format.
    """

    columns: tuple[str, ...] = ("sample", "name")

    def __init__(self, dataset: Dataset) -> None:
        self._dataset = dataset
        self.title = printable(dataset.path)

    def place_of(self, sample: str) -> tuple[str, str]:
        """The place of a sample given by number or name, and its name there."""
        (found,) = select_ranges(self._dataset, [sample])
        if not found:
            raise ValueError(f"there is no sample {sample}")
        return self._stretch(found[0]), str(found[0])

    def _stretch(self, index: int) -> str:
        if len(self._dataset) <= _PAGE:
            return ""
        first = index // _PAGE * _PAGE
        return f"{first}:{min(first + _PAGE, len(self._dataset))}"

    def entries(self, place: str, *, by_size: bool) -> list[Entry]:
        """Samples in their order, or stretches of them."""
        if not place and len(self._dataset) > _PAGE:
            stretches = [self._stretch(first) for first in range(0, len(self._dataset), _PAGE)]
            return [Entry(stretch, stretch, True, (stretch, "")) for stretch in stretches]
        keys = self._dataset.keys
        (samples,) = select_ranges(self._dataset, [place] if place else [])
        return [Entry(str(i), str(i), False, (str(i), printable(keys[i]) if keys is not None else "")) for i in samples]

    def about(self, place: str) -> str:
        """Which samples."""
        return format_count(len(self._dataset), "sample") + (f", {place}" if place else "")

    def above(self, place: str) -> tuple[str, str]:
        """All stretches."""
        return "", place

    def preview(self, entry: Entry, box: Box) -> Preview:
        """The values of a sample."""
        if entry.is_dir:
            return Preview([f"samples {entry.name}"])
        return describe_sample(self._dataset, int(entry.place), box=box)

    def extract(self, entry: Entry) -> str:
        """The first picture of a sample, or else its first value that is no number, under the sample's number."""
        if entry.is_dir:
            raise ValueError("open the stretch and choose a sample, or use: headrace extract")
        kinds = {name: field.kind for name, field in self._dataset.schema.items()}
        others = [name for name, kind in kinds.items() if kind not in ("int", "float")]
        chosen = next((name for name in others if kinds[name] == "image"), (others or list(kinds))[0])
        data, suffix = value_as_file(self._dataset, int(entry.place), chosen)
        name = f"sample-{int(entry.place):08d}{suffix}"
        with FolderWriter(".") as folder:
            folder.write(name, [data])
        return f"{name} written"
