"""Writing LMDB files with the library: into a nameless file first, then as a compact copy that gets its name."""

from __future__ import annotations

import contextlib
import errno
import os
from typing import TYPE_CHECKING, Any

from headrace.errors import WriteError
from headrace.fields import Float, Int
from headrace.formats.lmdb.dataset import is_reserved
from headrace.formats.row_writer import Row, RowWriter
from headrace.formats.values import encode_value
from headrace.progress import format_count
from headrace.registry import require
from headrace.storage import AtomicFile, released_meanwhile, temporary_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from headrace.errors import PathLike
    from headrace.types import Field

__all__ = ["LmdbWriter"]

_FIRST_MAP = 64 << 20
_MAX_KEY_BYTES = 511
_MAX_VALUE_BYTES = (1 << 32) - 1
_DIGITS, _DIGITS_OF_MANY = 8, 12


class LmdbWriter(RowWriter):
    """Writes an LMDB file with one value for each sample; names are the keys.

    Args:
        path: where the file goes.
        fields: one field that has bytes: Image, Bytes, Text, Json, or an array, which is stored as npy.
        length: number of samples, if known: keys of samples without names have so many digits.
    """

    def __init__(self, path: PathLike, fields: Mapping[str, Field], *, length: int | None = None) -> None:
        if len(fields) != 1:
            raise ValueError(f"an LMDB holds one value for each key, and there are the fields {', '.join(fields)}")
        super().__init__(fields, _store)
        ((name, field),) = fields.items()
        if isinstance(field, Int | Float):
            raise ValueError(f"fields[{name!r}] is a number ({field.kind}); an LMDB holds bytes, such as Json()")
        self._lmdb = require("lmdb", "writing an LMDB")
        self._digits = _DIGITS_OF_MANY if length is None else max(_DIGITS, len(str(length)))
        self._target = AtomicFile(path)
        self._draft: Any = None
        self._environment: Any = None
        try:
            self._draft = temporary_file(os.path.dirname(self._target.path))
            with self._told():
                self._environment = self._lmdb.open(
                    f"/proc/self/fd/{self._draft.fileno()}",
                    subdir=False,
                    lock=False,
                    sync=False,
                    readahead=False,
                    map_size=_FIRST_MAP,
                )
        except BaseException:
            self._discard()
            raise

    @contextlib.contextmanager
    def _told(self) -> Iterator[None]:
        """Raise the library's errors as errors of the disk, with the path."""
        try:
            yield
        except self._lmdb.MapFullError:
            raise
        except self._lmdb.Error as error:
            words = str(error).rpartition(": ")[2]
            number = next(
                (number for number in (errno.ENOSPC, errno.EDQUOT) if os.strerror(number) == words), errno.EIO
            )
            raise OSError(number, f"LMDB cannot write ({words}); nothing was changed", self._target.path) from error

    def _put(self, rows: list[Row], names: Sequence[str] | None) -> None:
        keys = [self._key(i, None if names is None else names[i - len(self)]) for i in self._numbers(rows)]
        pairs = [(key, value) for key, (value,) in zip(keys, rows, strict=True)]
        while True:
            try:
                with self._told(), self._environment.begin(write=True) as transaction:
                    for key, value in pairs:
                        if not transaction.put(key, value, overwrite=False):
                            raise WriteError(f"two samples are called {key.decode(errors='backslashreplace')!r}")
                return
            except self._lmdb.MapFullError:
                self._environment.set_mapsize(self._environment.info()["map_size"] * 2)

    def _numbers(self, rows: list[Row]) -> range:
        return range(len(self), len(self) + len(rows))

    def _key(self, index: int, name: str | None) -> bytes:
        if name is None:
            return f"{index:0{self._digits}d}".encode()
        key = name.encode("utf-8", "surrogateescape")
        if not 1 <= len(key) <= _MAX_KEY_BYTES:
            size = format_count(len(key), "byte")
            problem = f"sample {index}: its name has {size}, and a key of an LMDB has 1 to {_MAX_KEY_BYTES}"
            raise WriteError(problem, sample=index)
        if is_reserved(key):
            problem = f"sample {index}: names such as {name!r} are taken for notes of a program, not for samples"
            raise WriteError(problem, sample=index)
        return key

    def _finish(self) -> None:
        with self._told(), released_meanwhile(self._draft.fileno()):
            self._environment.copyfd(self._target.fileno(), compact=True)
        self._let_go()
        self._target.commit()

    def _discard(self) -> None:
        self._let_go()
        self._target.abort()

    def _let_go(self) -> None:
        if self._environment is not None:
            self._environment.close()
        if self._draft is not None:
            self._draft.close()
        self._environment = self._draft = None


def _store(field: Field, value: Any, index: int) -> bytes:
    data = encode_value(field, value, index)[1]
    if len(data) > _MAX_VALUE_BYTES:
        raise ValueError(f"the value has {format_count(len(data), 'byte')}, and LMDB holds {_MAX_VALUE_BYTES}")
    return data
