"""Which files make up samples: each picture with the files beside it that have its name, as in WebDataset shards.

What belongs to a sample stands before the first dot of the file's name, and what follows the dot is the field:
``7.jpg`` is the ``image``, ``7.cls`` the ``label``, ``7.txt`` the ``text``; other endings are names of fields
themselves. Without files beside the pictures, every picture is a sample, and its label is the first directory.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING

from headrace.codecs.image import SUFFIXES
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Arrangement", "LostFilesError", "arrange", "belongs_to_pictures"]

_FIELDS = {"cls": "label", "txt": "text", "npy": "array"}
_PICTURES = tuple(SUFFIXES)
_MAX_FIELDS = 64
_SHOWN = 10  # endings that are named; a hostile archive may have any number
_KINDS = {"cls": "label", "txt": "text", "json": "json", "npy": "npy"}


class LostFilesError(ValueError):
    """Files belong to some pictures and not to others, so they cannot become fields."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Arrangement:
    """Files of the samples by field, and what each field is; names of the samples; what is left out, in words."""

    keys: list[str]
    files: dict[str, list[str]]
    kinds: dict[str, str]
    left_out: list[str] = field(default_factory=list)

    @property
    def has_label(self) -> bool:
        """A file says what the label is, not a directory."""
        return "label" in self.files


def _is_picture(name: str) -> bool:
    # As os.path.splitext has it, which takes three times as long: dots in front begin no ending.
    return name.lower().endswith(_PICTURES) and "." in name[name.rfind("/") + 1 :].lstrip(".")


def _split(name: str) -> tuple[str, str]:
    """What a sample is called, and the ending of one of its files.

    Example:
        >>> _split("a/7.seg.PNG")
        ('a/7', 'seg.png')
    """
    directory, slash, last = name.rpartition("/")
    stem, _, ending = last.partition(".")
    return directory + slash + stem, ending.lower() or "data"


def belongs_to_pictures(names: Iterable[str], pictures: Iterable[str]) -> bool:
    """One of the names differs from that of a picture only in what follows the first dot."""
    stems = {_split(picture)[0] for picture in pictures}
    return any(_split(name)[0] in stems for name in names)


def arrange(names: list[str], *, only_pictures: bool = False) -> Arrangement | None:
    """Find the samples among files of which some are pictures; None if none is.

    Args:
        names: of the files, sorted.
        only_pictures: leave out what belongs to the pictures.

    Raises:
        LostFilesError: not every picture has the same files beside it.

    Example:
        >>> found = arrange(["7.cls", "7.jpg", "8.cls", "8.jpg", "notes.txt"])
        >>> found.files, found.left_out
        ({'image': ['7.jpg', '8.jpg'], 'label': ['7.cls', '8.cls']}, ['1 file, .txt: it belongs to no picture'])
    """
    pictures = [name for name in names if _is_picture(name)]
    if not pictures:
        return None
    known = set(pictures)
    others = [name for name in names if name not in known]
    stems = {_split(name)[0] for name in pictures} if others else set()
    beside = [name for name in others if _split(name)[0] in stems]
    together = set(beside)
    apart = [name for name in others if name not in together]
    left_out = _counts(apart, "belongs to no picture", "belong to no picture")
    if not beside or only_pictures:
        reason = "to a picture, and only the field image was asked for"
        left_out += _counts(beside, f"belongs {reason}", f"belong {reason}")
        return Arrangement(keys=pictures, files={"image": pictures}, kinds={"image": "image"}, left_out=left_out)
    return _group(pictures + beside, left_out)


def _group(names: list[str], left_out: list[str]) -> Arrangement:
    samples: dict[str, None] = {}
    found: dict[str, dict[str, str]] = {}  # by ending, then by sample: a dict for each sample would take far longer
    endings: Counter[str] = Counter()
    for name in sorted(names):
        stem, ending = _split(name)
        samples[stem] = None
        endings[ending] += 1
        found.setdefault(ending, {})[stem] = name
    if len(endings) > _MAX_FIELDS:
        problem = f"samples would have {format_count(len(endings), 'field')}, and {_MAX_FIELDS} is the limit"
        raise LostFilesError(f"files with the same name before the dot are one sample, but {problem}")
    uneven = {ending: count for ending, count in endings.items() if count != len(samples)}
    if uneven or any(len(files) != len(samples) for files in found.values()):
        total = format_count(len(samples), "sample")
        some = ", ".join(f".{ending} ({count:,} of {total})" for ending, count in islice(uneven.items(), _SHOWN))
        some += ", and others" if len(uneven) > _SHOWN else ""
        raise LostFilesError(f"files with the same name before the dot are one sample, but not all have {some}")
    pictures = [ending for ending in endings if _is_picture(f"x.{ending}")]
    usual = _FIELDS | ({pictures[0]: "image"} if len(pictures) == 1 else {})
    order = sorted(endings, key=lambda ending: (ending not in pictures, ending != "cls", ending))
    taken = Counter(usual.get(ending, ending) for ending in order)
    fields = {ending: ending if taken[usual.get(ending, ending)] > 1 else usual.get(ending, ending) for ending in order}
    return Arrangement(
        keys=[found[order[0]][sample] for sample in samples],
        files={fields[ending]: [found[ending][sample] for sample in samples] for ending in order},
        kinds={fields[ending]: _kind_of(ending) for ending in order},
        left_out=left_out,
    )


def _kind_of(ending: str) -> str:
    if _is_picture(f"x.{ending}"):
        return "image"
    return _KINDS.get(ending.rpartition(".")[2], "bytes")


def _counts(names: list[str], one: str, several: str) -> list[str]:
    """A line for each ending."""
    counts = Counter(_split(name)[1] for name in names)
    if len(counts) > _SHOWN:
        return [f"{format_count(len(names), 'file')} of many endings: they {several}"]
    return [
        f"{format_count(count, 'file')}, .{ending}: {f'it {one}' if count == 1 else f'they {several}'}"
        for ending, count in counts.items()
    ]
