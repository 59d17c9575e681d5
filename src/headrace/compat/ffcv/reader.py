"""The structure of a .beton file: header, fields, metadata, allocation table."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.compat.ffcv.fields import BytesField, FloatField, IntField, NDArrayField, RGBImageField, TorchTensorField
from headrace.compat.ffcv.storage import StoredColumn
from headrace.compat.ffcv.types import (
    ALLOC_TABLE_TYPE,
    CURRENT_VERSION,
    FieldDescType,
    HeaderType,
    get_handlers,
    get_metadata_type,
)
from headrace.compat.ffcv.utils import decode_null_terminated_string, is_power_of_2
from headrace.compat.passed_on import pass_on
from headrace.errors import FormatError
from headrace.storage import map_file

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Reader"]
pass_on(
    globals(),
    "ALLOC_TABLE_TYPE CURRENT_VERSION FieldDescType HeaderType decode_null_terminated_string get_handlers "
    "get_metadata_type np",
)

_STORED: dict[type, np.dtype[Any]] = {
    RGBImageField: RGBImageField().metadata_type,
    NDArrayField: np.dtype("<u8"),
    TorchTensorField: np.dtype("<u8"),
}


class Reader:
    """Opens a file and checks that its parts are inside it; ``custom_handlers`` are field classes by name."""

    def __init__(self, fname: Any, custom_handlers: Mapping[str, Any] | None = None) -> None:
        self._fname: str = os.fspath(fname)
        self._custom_handlers = custom_handlers or {}
        if os.path.isdir(self._fname):
            raise IsADirectoryError(f"{self._fname} is a directory; name a .beton file")
        self.mapped = map_file(self._fname)
        self.read_header()
        self.read_field_descriptors()
        self.read_metadata()
        self.read_allocation_table()

    @property
    def file_name(self) -> str:
        """The path."""
        return self._fname

    def _part(self, what: str, offset: int, dtype: Any, count: int) -> Any:
        size = count * dtype.itemsize
        if offset + size > len(self.mapped):
            raise FormatError(
                self._fname,
                offset=offset,
                problem=f"{what} needs {size} bytes from byte {offset} on, and the file has {len(self.mapped)}",
                fix="The file is cut short or was not finished; write it again.",
            )
        return self.mapped[offset : offset + size].view(dtype)

    def read_header(self) -> None:
        """Read version, counts and page size."""
        self.header = self._part("the header", 0, HeaderType, 1)[0]
        version = self.header["version"]
        if version != CURRENT_VERSION:
            raise AssertionError(f"file format mismatch: code={CURRENT_VERSION},file={version}")
        self.num_samples = int(self.header["num_samples"])
        self.page_size = int(self.header["page_size"])
        self.num_fields = int(self.header["num_fields"])
        if not is_power_of_2(self.page_size):
            problem = f"page_size must be a power of two, found {self.page_size}"
            raise FormatError(self._fname, offset=4, problem=problem)
        if not self.num_fields:
            raise FormatError(self._fname, offset=2, problem="the file has no fields")

    def read_field_descriptors(self) -> None:
        """Read names and types of the fields."""
        descriptors = self._part("the list of fields", HeaderType.itemsize, FieldDescType, self.num_fields)
        self.field_descriptors = descriptors
        self.field_names = [decode_null_terminated_string(name) for name in descriptors["name"]]
        if len(set(self.field_names)) < len(self.field_names):
            raise FormatError(self._fname, problem=f"two fields have the same name: {', '.join(self.field_names)}")
        try:
            handlers = get_handlers(descriptors)
        except (LookupError, TypeError, ValueError) as error:
            raise FormatError(self._fname, problem=f"a field cannot be read: {error}") from error
        self.handlers: dict[str, Any] = dict(zip(self.field_names, handlers, strict=True))
        for name, descriptor in zip(self.field_names, descriptors, strict=True):
            if name in self._custom_handlers:
                self.handlers[name] = self._custom_handlers[name].from_binary(descriptor["arguments"])
            elif self.handlers[name] is None:
                raise ValueError(f"Must specify a custom_field entry for custom field {name}")
            self._limit(name, self.handlers[name])
        self.metadata_type = get_metadata_type(list(self.handlers.values()))

    def _limit(self, name: str, handler: Any) -> None:
        """No value is larger than a page, or than the file."""
        largest = min(self.page_size, len(self.mapped))
        if isinstance(handler, BytesField):
            handler.largest_size = largest
        elif isinstance(handler, NDArrayField) and handler.element_size > largest:
            raise FormatError(
                self._fname,
                problem=f"the arrays of {name!r} have {handler.element_size} bytes, and a page has {self.page_size}",
            )

    def read_metadata(self) -> None:
        """Find the records of the samples; they stay in the mapped file."""
        offset = HeaderType.itemsize + self.field_descriptors.nbytes
        self.metadata = self._part("the metadata", offset, self.metadata_type, self.num_samples)

    def read_allocation_table(self) -> None:
        """Find the allocation table; it stays in the mapped file."""
        offset = int(self.header["alloc_table_ptr"])
        count = max(0, len(self.mapped) - offset) // ALLOC_TABLE_TYPE.itemsize
        if offset == 0 and self.num_samples:
            raise FormatError(self._fname, problem="the file was not finished", fix="Write it again.")
        self.alloc_table = self._part("the allocation table", offset, ALLOC_TABLE_TYPE, count)
        self._add_columns()

    def _add_columns(self) -> None:
        """Let the fields find the data of their samples."""
        row = 0
        for number, handler in enumerate(self.handlers.values()):
            stored = _STORED.get(type(handler))
            if stored is not None and handler.metadata_type == stored:
                handler.column = StoredColumn(self.metadata, f"f{number}", self.alloc_table, row, len(self.mapped))
            row += not isinstance(handler, IntField | FloatField)
