"""What a field is: how it is stored and which decoder reads it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np

from headrace.compat.passed_on import pass_on

if TYPE_CHECKING:
    from headrace.compat.ffcv.storage import StoredColumn

__all__ = ["ARG_TYPE", "Field"]
pass_on(globals(), "ABC Operation Type abstractmethod np")

ARG_TYPE = np.dtype([("", "<u1", 1024)])


class Field(ABC):
    """The type of one column; a user's own is stored with type id 255 and read through ``custom_fields``."""

    column: StoredColumn | None = None  # of the file that is read

    def __getstate__(self) -> dict[str, Any]:
        """Everything but what belongs to an open file."""
        return {name: value for name, value in vars(self).items() if name != "column"}

    @property
    @abstractmethod
    def metadata_type(self) -> np.dtype[Any]:
        """Dtype of the record that stands for a value."""
        raise NotImplementedError

    @staticmethod
    @abstractmethod
    def from_binary(binary: Any) -> Field:
        """The field from its 1024 argument bytes."""
        raise NotImplementedError

    @abstractmethod
    def to_binary(self) -> Any:
        """The 1024 argument bytes."""
        raise NotImplementedError

    @abstractmethod
    def encode(self, destination: Any, field: Any, malloc: Any) -> None:
        """Store a value: its record into ``destination``, its data into memory from ``malloc(size)``."""
        raise NotImplementedError

    @abstractmethod
    def get_decoder_class(self) -> Any:
        """The decoder that is used when a pipeline names none."""
        raise NotImplementedError


def no_arguments() -> Any:
    """The argument bytes of fields that have none."""
    return np.zeros(1, ARG_TYPE)[0]
