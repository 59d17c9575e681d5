"""What a dataset is, as JSON: fields, names of classes, metadata. Formats that have a place for such a text keep it."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from headrace.errors import FormatError
from headrace.fields import from_spec, problem_with_name, to_spec
from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from headrace.types import Field

__all__ = ["Description"]

_MAX_BYTES = 64 << 20
_VERSION = 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Description:
    """Fields in order, names of classes by field, and whatever the user said about the whole dataset.

    Example:
        >>> from headrace.fields import Int
        >>> text = Description(fields={"label": Int()}, class_names={"label": ["cat"]}).to_text()
        >>> Description.parse("x.h5", text).class_names
        {'label': ['cat']}
    """

    fields: Mapping[str, Field]
    class_names: Mapping[str, Sequence[str]] = field(default_factory=dict)
    metadata: Any = None

    def to_text(self) -> str:
        """As ASCII text; names that are not UTF-8 survive, too."""
        fields = [[name, to_spec(one)] for name, one in self.fields.items()]
        classes = {name: list(names) for name, names in self.class_names.items()}
        return json.dumps({"version": _VERSION, "fields": fields, "classes": classes, "metadata": self.metadata})

    @classmethod
    def parse(cls, path: str, text: str | bytes) -> Description:
        """Read the text again; FormatError when it says anything else than ``to_text`` could."""
        try:
            if len(text) > _MAX_BYTES:
                raise ValueError(f"it has {format_count(len(text), 'byte')}, the most is {_MAX_BYTES}")
            return cls._of(json.loads(text))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise FormatError(
                path, problem=f"the description of its fields cannot be read ({error})", fix="Write the dataset again."
            ) from None

    @classmethod
    def _of(cls, value: Any) -> Description:
        if value["version"] != _VERSION:
            raise ValueError(f"version {value['version']!r}, and this headrace reads version {_VERSION}")
        fields = {}
        for name, spec in value["fields"]:
            if not isinstance(name, str) or not isinstance(spec, dict) or problem_with_name(name):
                raise ValueError(f"no field can be called {name!r}")
            fields[name] = from_spec(spec)
        classes = value["classes"]
        for name, names in classes.items():
            if name not in fields or not isinstance(names, list) or not all(isinstance(one, str) for one in names):
                raise ValueError(f"the names of the classes of {name!r} are no list of texts")
        return cls(fields=fields, class_names=dict(classes), metadata=value["metadata"])
