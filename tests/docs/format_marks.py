"""What a format does, found out by doing it: the marks of the table in docs/explanation/choosing-a-format.md."""

from __future__ import annotations

import contextlib
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import headrace as hr
from headrace.codecs import jpeg
from headrace.errors import HeadraceError, WriteError
from headrace.testing.columns import picture_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.formats.contract import Format

__all__ = ["COLUMNS", "fresh", "write_values"]

YES, NO = "yes", "no"
COUNT = 6
NAMES = [f"sample-{i}" for i in range(COUNT)]
LABELS = [i // 2 for i in range(COUNT)]  # an archive has its files by path, and so by class
JPEGS = [jpeg.encode(picture_of(i, 240, 320), quality=90) for i in range(COUNT)]
ARRAYS = [np.random.default_rng(i).integers(0, 256, 3000, np.uint8) for i in range(COUNT)]
PATTERNS = [np.tile(np.arange(i, i + 8, dtype=np.uint8), 375) for i in range(COUNT)]


def write_values(
    folder: Path,
    known: Format,
    *,
    name: str = "x",
    ending: str | None = None,
    is_random: bool = True,
    copies: int = 1,
    **options: Any,
) -> tuple[Path, list[bytes]]:
    """A dataset of values of 3000 bytes, as bytes or else as arrays, and these values."""
    path = folder / f"{name}{ending or known.suffixes[0]}"
    arrays = (ARRAYS if is_random else PATTERNS) * copies
    try:
        hr.write(path, [(array.tobytes(),) for array in arrays], fields={"data": hr.Bytes()}, **options)
        if "compression" not in options:
            return path, [array.tobytes() for array in arrays]
        path.unlink()  # of an HDF5, arrays are compressed, and bytes of any length are not
    except ValueError:
        pass
    hr.write(path, [(array,) for array in arrays], fields={"data": hr.NDArray("uint8", (3000,))}, **options)
    return path, [array.tobytes() for array in arrays]


def write_pictures(folder: Path, known: Format, **options: Any) -> Any:
    """A dataset of JPEGs, opened as such after it was indexed, and the name of its field."""
    path = folder / f"x{known.suffixes[0]}"
    hr.write(path, [(data,) for data in JPEGS], fields={"image": hr.Image()}, **options)
    _index(path, known)
    dataset = hr.open(path)
    if all(field.kind != "image" for field in dataset.schema.values()):
        dataset = hr.open(path, decode="image")
    return dataset, next(name for name, field in dataset.schema.items() if field.kind == "image")


def _index(path: Path, known: Format) -> None:
    if known.index is not None:
        with contextlib.suppress(ValueError):  # a .beton has it all inside; of tables, only JPEGs are indexed
            hr.index(path)


def samples_found(folder: Path, known: Format) -> str:
    """By the file's own index; or by one pass over the file, which is kept beside it if the file is large."""
    path = folder / f"x{known.suffixes[0]}"
    array = np.random.default_rng(0).integers(0, 256, 1 << 20, np.uint8)
    try:
        hr.write(path, [(array.tobytes(),)] * 17, fields={"data": hr.Bytes()})
    except ValueError:
        hr.write(path, [(array,)] * 17, fields={"data": hr.NDArray("uint8", array.shape)})
    if path.stat().st_size < 16 << 20:  # the values are files beside it
        hr.write(path, [("a line of text " * 4096,)] * 300, fields={"text": hr.Text()}, force=True)
    annex = path.with_name(f"{path.name}.annex")
    annex.unlink(missing_ok=True)
    hr.open(path).close()
    return "one pass" if annex.exists() else "index"


def several_fields(folder: Path, known: Format) -> str:
    """Bytes, a number and a text in one sample come back; an archive makes a file, and so a sample, of each."""
    samples = [(array.tobytes(), i, f"text {i}") for i, array in enumerate(ARRAYS)]
    fields = {"data": hr.Bytes(), "label": hr.Int(), "note": hr.Text()}
    path = folder / f"x{known.suffixes[0]}"
    try:
        hr.write(path, samples, fields=fields)
    except ValueError:
        return NO
    with hr.open(path) as dataset:
        if known.holds_files and len(dataset) == 2 * COUNT:
            return "files"
        assert [tuple(sample) for sample in dataset] == samples
    return YES


def names_kept(folder: Path, known: Format) -> str:
    """The names of samples come back; an archive may add an ending."""
    path, _ = write_values(folder, known, names=NAMES)
    with hr.open(path) as dataset:
        keys = dataset.keys
    if keys is None:
        return NO
    assert [key.rpartition("/")[2].partition(".")[0] for key in keys] == NAMES
    return YES


def classes_kept(folder: Path, known: Format) -> str:
    """The names of classes come back."""
    path = folder / f"x{known.suffixes[0]}"
    classes = {"label": ["cat", "dog", "owl"]}
    fields = {"image": hr.Image(), "label": hr.Int()}
    try:
        hr.write(path, list(zip(JPEGS, LABELS, strict=True)), fields=fields, class_names=classes)
    except (ValueError, TypeError):
        return NO
    with hr.open(path) as dataset:
        return YES if list(map(list, dataset.class_names.values())) == list(classes.values()) else NO


def pixels_kept(folder: Path, known: Format) -> str:
    """Pictures that are not to be compressed with loss come back with the same pixels."""
    pictures = [picture_of(i, 24, 32) for i in range(COUNT)]
    path = folder / f"x{known.suffixes[0]}"
    try:
        hr.write(path, [(picture,) for picture in pictures], fields={"image": hr.Image(mode="raw")})
    except (ValueError, WriteError):
        return NO
    with hr.open(path) as dataset:
        if all(field.kind != "image" for field in dataset.schema.values()):
            dataset = hr.open(path, decode="image")
        found = dataset.read_values(np.arange(COUNT), next(iter(dataset.schema)))
        same = [np.array_equal(a, b) for a, b in zip(found, pictures, strict=True)]
    return YES if all(same) else NO


def damage_found(folder: Path, known: Format) -> str:
    """A bit that flips in a value is found: by the format's own checksums, or by those of the annex."""
    path, values = write_values(folder, known)
    _index(path, known)
    _flip_a_bit(folder, values)
    if _is_intact(path):
        return NO
    for annex in folder.glob("*.annex"):
        annex.unlink()
    return "annex" if _is_intact(path) else YES


def _flip_a_bit(folder: Path, values: list[bytes]) -> None:
    for file in sorted(path for path in folder.rglob("*") if path.is_file()):
        data = bytearray(file.read_bytes())
        place = data.find(values[2])
        if place >= 0:
            data[place + 1500] ^= 4
            file.write_bytes(data)
            return
    raise AssertionError("no file holds the value as it is")


def _is_intact(path: Path) -> bool:
    try:
        return hr.verify(path, decode=True).ok
    except HeadraceError:
        return False


def windows(folder: Path, known: Format) -> str:
    """A crop is decoded without the rest of its picture: there are tile indices."""
    try:
        dataset, field = write_pictures(folder, known)
    except ValueError:
        return NO
    with dataset:
        return NO if dataset.image_spans(np.arange(COUNT), field).tile_indices is None else YES


def in_place(folder: Path, known: Format) -> str:
    """Pictures (or arrays, where there are no pictures) are used where they lie in the mapped file."""
    try:
        dataset, field = write_pictures(folder, known)
    except ValueError:
        dataset = hr.open(write_values(folder, known)[0])
        return YES if _is_mapped(folder, dataset.view("data")) else NO
    with dataset:
        return YES if _is_mapped(folder, dataset.image_spans(np.arange(COUNT), field).base) else NO


def _is_mapped(folder: Path, array: np.ndarray[Any, Any]) -> bool:
    """Whether the memory of an array is that of a file in a folder."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, last = (int(bound, 16) for bound in line.split()[0].split("-"))
        if first <= array.ctypes.data < last:
            return line.endswith(tuple(str(file) for file in folder.rglob("*") if file.is_file()))
    return False


def one_range(folder: Path, known: Format) -> str:
    """The bytes of a value lie in the file as they are, one after the other; or in a file of their own."""
    path, values = write_values(folder, known, is_random=False)
    holders = [file for file in folder.rglob("*") if file.is_file() and values[3] in file.read_bytes()]
    if not holders:
        return NO
    return YES if holders[0].name.startswith(path.name) else "files"


def small_when_compressed(folder: Path, known: Format) -> str:
    """Values that compress well take little room: always, or by an option of the writer, or with another ending."""
    ways: dict[str, tuple[str, dict[str, Any]]] = {"always": (known.suffixes[0], {})}
    for option, value in {"compressed": True, "compression": "gzip"}.items():
        if option in known.writer_options:
            ways[f"`{option}=`"] = (known.suffixes[0], {option: value})
    for ending in [ending for ending in known.suffixes if ending.endswith(".gz")][:1]:
        ways[f"`{ending}`"] = (ending, {})
    for number, (way, (ending, options)) in enumerate(ways.items()):
        home = folder / str(number)
        home.mkdir()
        _, values = write_values(home, known, ending=ending, is_random=False, copies=40, **options)
        size = sum(file.stat().st_size for file in home.rglob("*") if file.is_file())
        if size < sum(map(len, values)) // 4:
            return way
    return NO


def changes(folder: Path, known: Format) -> str:
    """Files can be added and removed afterwards."""
    return YES if known.open_archive is not None else NO


COLUMNS: dict[str, Callable[[Path, Format], str]] = {
    "samples found by": samples_found,
    "several fields": several_fields,
    "names": names_kept,
    "classes": classes_kept,
    "exact pixels": pixels_kept,
    "damage found": damage_found,
    "JPEG windows": windows,
    "read in place": in_place,
    "one range": one_range,
    "compressed": small_when_compressed,
    "can be changed": changes,
}


def fresh(folder: Path) -> Path:
    """An empty folder."""
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    return folder
