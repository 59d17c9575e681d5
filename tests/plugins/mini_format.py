"""A made-up format, as another package would bring it: one JSON file, every value as facts and bytes."""

from __future__ import annotations

import base64
import dataclasses
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.fields import from_spec, to_spec
from headrace.formats.barecat import FORMAT as BARECAT
from headrace.formats.contract import BaseDataset, BaseWriter, Format, normalize_indices, values_in_order
from headrace.types import Encoded, Report, Sample

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    import numpy.typing as npt

    from headrace.types import Field, IndexArray, Indices, Progress

Row = list[Encoded]


class MiniDataset(BaseDataset):
    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = os.fspath(path)
        with open(self._path, encoding="ascii") as file:
            content = json.load(file)
        self._schema = {name: from_spec(spec) for name, spec in content["fields"]}
        self._keys: list[str] | None = content["names"]
        self._rows: list[Row] = [
            [Encoded(tuple(facts), None if data is None else base64.b64decode(data)) for facts, data in row]
            for row in content["rows"]
        ]

    @property
    def path(self) -> str:
        return self._path

    @property
    def schema(self) -> Mapping[str, Field]:
        return self._schema

    @property
    def keys(self) -> Sequence[str] | None:
        return self._keys

    def __len__(self) -> int:
        return len(self._rows)

    def _samples(self, indices: IndexArray) -> list[Sample]:
        return [Sample(tuple(self._schema), tuple(self._values(i))) for i in indices.tolist()]

    def _values(self, index: int) -> Iterable[Any]:
        for field, (facts, payload) in zip(self._schema.values(), self._rows[index], strict=True):
            yield facts[0] if payload is None else field.decode(facts, memoryview(payload))

    def read_bytes(self, indices: Indices, field: str) -> list[bytes]:
        column = list(self._schema).index(field)
        return [self._rows[i][column].payload or b"" for i in normalize_indices(indices, len(self)).tolist()]

    def verify(self, *, decode: bool = False, workers: int | None = None, progress: Progress | None = None) -> Report:
        if decode:
            _ = self[:]
        size_bytes = os.path.getsize(self._path)
        facts = {"samples_checked": len(self), "checksums_checked": 0, "images_decoded": 0, "size_bytes": size_bytes}
        return Report(path=self._path, problems=(), **facts)


@dataclass(frozen=True, slots=True)
class MiniChunk:
    rows: list[Row]

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def sizes(self) -> npt.NDArray[np.uint64]:
        return np.array([[len(one.payload or b"") for one in row] for row in self.rows], np.uint64)


@dataclass(frozen=True, slots=True)
class MiniEncoder:
    fields: dict[str, Field]

    def __call__(self, samples: Iterable[Any], *, first_index: int) -> MiniChunk:
        rows = []
        for index, sample in enumerate(samples, first_index):
            values = values_in_order(sample, list(self.fields), index)
            rows.append([field.encode(v, index) for field, v in zip(self.fields.values(), values, strict=True)])
        return MiniChunk(rows)


class MiniWriter(BaseWriter):
    def __init__(self, path: str | os.PathLike[str], fields: Mapping[str, Field], *, length: int | None = None) -> None:
        self._path = os.fspath(path)
        self.encoder = MiniEncoder(dict(fields))
        self._rows: list[Row] = []
        self._names: list[str] = []

    def __len__(self) -> int:
        return len(self._rows)

    @property
    def size_bytes(self) -> int:
        return sum(len(one.payload or b"") for row in self._rows for one in row)

    def append(self, sample: Any, *, name: str | None = None) -> None:
        self.append_chunk(self.encoder([sample], first_index=len(self)), names=None if name is None else [name])

    def append_chunk(self, chunk: MiniChunk, *, names: Sequence[str] | None = None) -> None:
        self._rows += chunk.rows
        self._names += names or []

    def close(self) -> None:
        rows = [
            [(one.facts, None if one.payload is None else base64.b64encode(one.payload).decode()) for one in row]
            for row in self._rows
        ]
        fields = [(name, to_spec(field)) for name, field in self.encoder.fields.items()]
        with open(self._path, "w", encoding="ascii") as file:
            json.dump({"fields": fields, "names": self._names or None, "rows": rows}, file)

    def abort(self) -> None:
        pass


FORMAT = Format(
    name="mini",
    suffixes=(".mini",),
    matches=lambda path, head: head.startswith(b'{"fields"'),
    open=MiniDataset,
    create=MiniWriter,
)


class _Half:
    """Lacks nearly all that a Dataset has."""

    path = "x"

    def __init__(self, path: str) -> None:
        pass

    def __len__(self) -> int:
        return 0


HALF = Format(
    name="half",
    suffixes=(".half",),
    matches=lambda path, head: False,
    open=_Half,  # type: ignore[arg-type]
    create=lambda path, fields, length: _Half(path),  # type: ignore[arg-type, return-value]
)


CRATE = dataclasses.replace(BARECAT, name="crate", suffixes=(".crate",), matches=lambda path, head: False, index=None)
