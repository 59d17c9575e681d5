"""What Hugging Face's ``datasets`` says about columns: in the schema of a table, and in the files of a saved folder."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.errors import FormatError
from headrace.fields import Image, Int, NDArray
from headrace.progress import format_count
from headrace.storage import open_stream

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.types import Field

__all__ = [
    "class_names_of",
    "data_files",
    "field_of",
    "is_saved_folder",
    "parse_features",
    "read_info",
    "to_metadata",
]

_SAVED_INFO = "dataset_info.json"
_SAVED_STATE = "state.json"
_SAVED_SPLITS = "dataset_dict.json"
_MAX_BYTES = 64 << 20


def parse_features(text: str | bytes, *, is_info: bool = False) -> dict[str, Any]:
    """Features by column, from the text of a schema or of ``dataset_info.json``; ValueError when it is none."""
    if len(text) > _MAX_BYTES:
        raise ValueError(f"it has {format_count(len(text), 'byte')}, the most is {_MAX_BYTES}")
    try:
        value = json.loads(text)
        value = value if is_info else value["info"]
        features = value.get("features") or {}
        return {str(name): one for name, one in features.items() if isinstance(one, dict)}
    except (KeyError, TypeError, AttributeError, RecursionError) as error:
        raise ValueError(f"no features are in it ({type(error).__name__}: {error})") from None


def field_of(feature: Mapping[str, Any]) -> Field | None:
    """The field that a feature is, for those of which Arrow's own type does not say enough."""
    kind = feature.get("_type")
    if kind == "Image":
        return Image()
    if kind == "ClassLabel":
        return Int()
    if kind in ("Array2D", "Array3D", "Array4D", "Array5D"):
        try:
            return NDArray(np.dtype(str(feature["dtype"])), feature["shape"])
        except (KeyError, TypeError, ValueError):
            return None  # a side that is not fixed: then the column is read as lists
    return None


def class_names_of(feature: Mapping[str, Any]) -> list[str] | None:
    """Names of the classes of a ClassLabel."""
    names = feature.get("names")
    if feature.get("_type") != "ClassLabel" or not isinstance(names, list):
        return None
    return names if all(isinstance(one, str) for one in names) else None


def to_metadata(fields: Mapping[str, Field], class_names: Mapping[str, Sequence[str]]) -> str:
    """The text for the schema of a new table: which columns are pictures, and names of classes."""
    features: dict[str, Any] = {}
    for name, field in fields.items():
        if isinstance(field, Image):
            features[name] = {"_type": "Image"}
        elif isinstance(field, Int) and name in class_names:
            features[name] = {"names": list(class_names[name]), "_type": "ClassLabel"}
    return json.dumps({"info": {"features": features}})


def is_saved_folder(path: str) -> bool:
    """A folder that ``save_to_disk`` has left, of one split or of several."""
    has = {name: os.path.isfile(os.path.join(path, name)) for name in (_SAVED_INFO, _SAVED_STATE, _SAVED_SPLITS)}
    return has[_SAVED_SPLITS] or (has[_SAVED_INFO] and has[_SAVED_STATE])


def data_files(folder: str) -> list[str]:
    """Paths of the Arrow files of a saved folder, in order; none of them leads out of it."""
    state = os.path.join(folder, _SAVED_STATE)
    if not os.path.isfile(state):
        raise _without_state(folder)
    files = _read_json(state)
    names = files.get("_data_files") if isinstance(files, dict) else None
    if not isinstance(names, list):
        raise FormatError(state, problem="it has no list of data files", fix="Save the dataset again.")
    found = [one.get("filename") if isinstance(one, dict) else None for one in names]
    for name in found:
        if not isinstance(name, str) or name in ("", ".", "..") or "/" in name or "\0" in name:
            raise FormatError(state, problem=f"{name!r} is not the name of a file beside it", fix="It may be hostile.")
    return [os.path.join(folder, str(name)) for name in found]


def _without_state(folder: str) -> FormatError:
    if not os.path.isfile(os.path.join(folder, _SAVED_SPLITS)):
        return FormatError(folder, problem=f"it has no {_SAVED_STATE}, so it is no folder that save_to_disk has left")
    splits = _read_json(os.path.join(folder, _SAVED_SPLITS))
    names = splits.get("splits") if isinstance(splits, dict) else None
    known = ", ".join(map(str, names)) if isinstance(names, list) else "folders"
    first = names[0] if isinstance(names, list) and names else "train"
    problem = f"it holds several datasets ({known})"
    return FormatError(folder, problem=problem, fix=f"Open one of them, such as {os.path.join(folder, str(first))}.")


def _read_json(path: str) -> Any:
    with open_stream(path) as file:
        text = file.read(_MAX_BYTES + 1)
    try:
        if len(text) > _MAX_BYTES:
            raise ValueError(f"it is larger than {_MAX_BYTES} bytes")
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise FormatError(path, problem=f"it cannot be read ({error})", fix="Save the dataset again.") from None


def read_info(folder: str) -> bytes:
    """The text of ``dataset_info.json`` of a folder, empty when there is none."""
    path = os.path.join(folder, _SAVED_INFO)
    if not os.path.isfile(path):
        return b""
    with open_stream(path) as file:
        return file.read(_MAX_BYTES + 1)
