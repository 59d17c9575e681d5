"""The index of a packed folder: the last sample of the file.

It is the nine bytes ``piouhjgbr`` and a pickle of nested OrderedDicts: a name gives the number of a sample, or the dict
of a folder. A pickle can run code, so it is not unpickled: a small machine here knows the few instructions that such an
index is made of (protocols 0 to 5) and can build nothing but dicts, text and integers. Every other instruction, every
other global, anything that is reached twice (which also means every cycle), and sizes beyond the limits are refused.
"""

from __future__ import annotations

import pickle
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeAlias

from penstock.errors import FormatError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from penstock.formats.ffr.reader import FfrReader

__all__ = ["INDEX_MAGIC", "Tree", "build_tree", "find", "list_files", "pack_index", "parse_index", "read_index", "walk"]

INDEX_MAGIC = b"piouhjgbr"
MAX_INDEX_BYTES = 1 << 30
MAX_DEPTH = 1000
_PROTOCOL = 4  # what FFRecord's files have on Python 3.8 to 3.13
_MAX_DIGITS = 19

Tree: TypeAlias = "OrderedDict[str, int | Tree]"


class _Refused(Exception):
    """Why an index is not read."""


class _Mark:
    """Where the items of a tuple or of a dict begin."""


_MARK = _Mark()
_CLASS = object()  # collections.OrderedDict, as an instruction that makes one
_EMPTY: tuple[()] = ()


def read_index(reader: FfrReader) -> Tree:
    """Read and check the index of a packed folder; FormatError when there is none or it is not harmless."""
    path, count = reader.paths[0], len(reader)
    if count == 0:
        raise FormatError(path, problem="the file has no samples, so it is not a packed folder")
    size = int(reader.sizes([count - 1])[0])
    if size > MAX_INDEX_BYTES:
        raise FormatError(path, problem=f"an index of {size} bytes is larger than {MAX_INDEX_BYTES}, the most allowed")
    (data,) = reader.read_bytes([count - 1])
    if not data.startswith(INDEX_MAGIC):
        raise FormatError(
            path,
            problem=f"a packed folder ends with an index that begins with {INDEX_MAGIC!r}, found {data[:9]!r}",
            fix="Open it as a plain .ffr file.",
        )
    try:
        return _checked_tree(parse_index(data[len(INDEX_MAGIC) :]), count - 1)
    except _Refused as error:
        raise FormatError(
            path,
            problem=f"the index of the packed folder (sample {count - 1}) is not read: {error}",
            fix="Nothing of it was run. To see the samples without it, open the file with packed=False.",
        ) from None


def parse_index(data: bytes) -> Any:
    """What a pickle of nested dicts of integers says, without unpickling it."""
    return _Machine(data).run()


class _Machine:
    """Runs the instructions of an index; each of them is one method, found by its byte."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0
        self._stack: list[Any] = []
        self._memo: dict[int, Any] = {}
        self._placed: set[int] = set()  # dicts that have a place in another one, by id; the memo keeps all alive
        self._dicts: list[Any] = []

    def run(self) -> Any:
        data, methods = self._data, _METHODS
        while True:
            if self._at >= len(data):
                raise _Refused(f"it ends after {len(data)} bytes, in the middle")
            code = data[self._at]
            self._at += 1
            if code == 0x2E:  # STOP
                return self._result()
            method = methods.get(code)
            if method is None:
                raise _Refused(f"instruction {code:#04x} at byte {self._at - 1} does not belong into an index")
            method(self)

    def _result(self) -> Any:
        result = self._pop()
        if self._stack:
            raise _Refused(f"{len(self._stack)} values are left over")
        return result

    def _pop(self) -> Any:
        if not self._stack:
            raise _Refused(f"nothing is left to take at byte {self._at}")
        return self._stack.pop()

    def _take(self, count: int) -> bytes:
        piece = self._data[self._at : self._at + count]
        if len(piece) != count:
            raise _Refused(f"it ends after {len(self._data)} bytes, in the middle")
        self._at += count
        return piece

    def _number(self, count: int, *, signed: bool = False) -> int:
        return int.from_bytes(self._take(count), "little", signed=signed)

    def _line(self) -> str:
        end = self._data.find(b"\n", self._at)
        if end < 0:
            raise _Refused(f"it ends after {len(self._data)} bytes, in the middle")
        line = self._data[self._at : end]
        self._at = end + 1
        try:
            return line.decode("ascii")
        except UnicodeDecodeError:
            raise _Refused(f"text that is not ASCII at byte {self._at}") from None

    def _text(self, data: bytes) -> None:
        try:
            self._stack.append(data.decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            raise _Refused(f"a name before byte {self._at} is not UTF-8") from None

    def proto(self) -> None:
        if self._number(1) > 5:
            raise _Refused("its pickle protocol is not known")

    def frame(self) -> None:
        self._take(8)  # frames only say how much to read ahead

    def short_text(self) -> None:
        self._text(self._take(self._number(1)))

    def text(self) -> None:
        self._text(self._take(self._number(4)))

    def long_text(self) -> None:
        self._text(self._take(self._number(8)))

    def escaped_text(self) -> None:
        end = self._data.find(b"\n", self._at)
        line = self._take(max(0, end - self._at))
        self._take(1)
        try:
            self._stack.append(line.decode("raw-unicode-escape"))
        except UnicodeDecodeError:
            raise _Refused(f"a name before byte {self._at} has a wrong escape") from None

    def integer_1(self) -> None:
        self._stack.append(self._number(1))

    def integer_2(self) -> None:
        self._stack.append(self._number(2))

    def integer_4(self) -> None:
        self._stack.append(self._number(4, signed=True))

    def integer_any(self) -> None:
        self._stack.append(self._number(min(self._number(1), 16), signed=True))

    def integer_text(self) -> None:
        line = self._line().removesuffix("L")
        if len(line) > _MAX_DIGITS or line in ("00", "01") or not line.removeprefix("-").isdecimal():
            raise _Refused(f"{line[:20]!r} before byte {self._at} is not a number of a sample")
        self._stack.append(int(line))

    def memoize(self) -> None:
        self._put(len(self._memo))

    def put_1(self) -> None:
        self._put(self._number(1))

    def put_4(self) -> None:
        self._put(self._number(4))

    def put_text(self) -> None:
        self._put(self._line_number())

    def _put(self, key: int) -> None:
        self._stack.append(self._pop())
        self._memo[key] = self._stack[-1]

    def get_1(self) -> None:
        self._get(self._number(1))

    def get_4(self) -> None:
        self._get(self._number(4))

    def get_text(self) -> None:
        self._get(self._line_number())

    def _line_number(self) -> int:
        line = self._line()
        if len(line) > _MAX_DIGITS or not line.isdecimal():
            raise _Refused(f"{line[:20]!r} before byte {self._at} is not a number")
        return int(line)

    def _get(self, key: int) -> None:
        if key not in self._memo:
            raise _Refused(f"it refers to a value that does not exist at byte {self._at}")
        self._stack.append(self._memo[key])

    def named_class(self) -> None:
        self._push_class(self._line(), self._line())

    def stacked_class(self) -> None:
        name, module = self._pop(), self._pop()
        self._push_class(module, name)

    def _push_class(self, module: Any, name: Any) -> None:
        if (module, name) != ("collections", "OrderedDict"):
            raise _Refused(f"it wants to call {module}.{name}")
        self._stack.append(_CLASS)

    def mark(self) -> None:
        self._stack.append(_MARK)

    def _items(self) -> list[Any]:
        for position in range(len(self._stack) - 1, -1, -1):
            if self._stack[position] is _MARK:
                items = self._stack[position + 1 :]
                del self._stack[position:]
                return items
        raise _Refused(f"items without a beginning at byte {self._at}")

    def empty_tuple(self) -> None:
        self._stack.append(_EMPTY)

    def marked_tuple(self) -> None:
        if self._items():
            raise _Refused(f"arguments for a call at byte {self._at}")
        self._stack.append(_EMPTY)

    def call(self) -> None:
        arguments, what = self._pop(), self._pop()
        if what is not _CLASS or arguments is not _EMPTY:
            raise _Refused(f"a call of something else than OrderedDict at byte {self._at}")
        self.empty_dict()

    def empty_dict(self) -> None:
        made: Tree = OrderedDict()
        self._dicts.append(made)
        self._stack.append(made)

    def marked_dict(self) -> None:
        items = self._items()
        self.empty_dict()
        self._fill(items)

    def set_items(self) -> None:
        self._fill(self._items())

    def set_item(self) -> None:
        value, key = self._pop(), self._pop()
        self._fill([key, value])

    def _fill(self, items: list[Any]) -> None:
        target = self._stack[-1] if self._stack else None
        if not isinstance(target, OrderedDict) or len(items) % 2:
            raise _Refused(f"items of something that is not a folder at byte {self._at}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) is not str or key in target:
                raise _Refused(f"a name that is no text, or a second time the same, before byte {self._at}")
            if isinstance(value, OrderedDict):
                if id(value) in self._placed:
                    raise _Refused(f"the folder {key!r} has two places")
                self._placed.add(id(value))
            elif type(value) is not int:
                raise _Refused(f"{key!r} is neither a folder nor the number of a sample")
            target[key] = value


_METHODS = {
    0x80: _Machine.proto,
    0x95: _Machine.frame,
    0x8C: _Machine.short_text,
    ord("X"): _Machine.text,
    0x8D: _Machine.long_text,
    ord("V"): _Machine.escaped_text,
    ord("K"): _Machine.integer_1,
    ord("M"): _Machine.integer_2,
    ord("J"): _Machine.integer_4,
    0x8A: _Machine.integer_any,
    ord("I"): _Machine.integer_text,
    ord("L"): _Machine.integer_text,
    0x94: _Machine.memoize,
    ord("q"): _Machine.put_1,
    ord("r"): _Machine.put_4,
    ord("p"): _Machine.put_text,
    ord("h"): _Machine.get_1,
    ord("j"): _Machine.get_4,
    ord("g"): _Machine.get_text,
    ord("c"): _Machine.named_class,
    0x93: _Machine.stacked_class,
    ord("("): _Machine.mark,
    ord(")"): _Machine.empty_tuple,
    ord("t"): _Machine.marked_tuple,
    ord("R"): _Machine.call,
    ord("}"): _Machine.empty_dict,
    ord("d"): _Machine.marked_dict,
    ord("u"): _Machine.set_items,
    ord("s"): _Machine.set_item,
}


def _checked_tree(tree: Any, count: int) -> Tree:
    if not isinstance(tree, OrderedDict):
        raise _Refused("it is not a folder")
    level: list[Tree] = [tree]
    seen = {id(tree)}
    for _ in range(MAX_DEPTH):
        below: list[Tree] = []
        for folder in level:
            for name, value in folder.items():
                _check_name(name)
                if isinstance(value, int):
                    if not 0 <= value < count:
                        raise _Refused(f"{name!r} is sample {value}, and the files are samples 0 to {count - 1}")
                elif id(value) in seen:
                    raise _Refused(f"the folder {name!r} contains itself")
                else:
                    seen.add(id(value))
                    below.append(value)
        if not below:
            return tree
        level = below
    raise _Refused(f"folders are nested more than {MAX_DEPTH} deep")


def _check_name(name: str) -> None:
    if name in ("", ".", "..") or "/" in name or "\0" in name:
        raise _Refused(f"{name!r} cannot be the name of a file")


def find(tree: Tree, path: str) -> int | Tree | None:
    """What stands at a relative path: the number of a file's sample, a folder, or None.

    Example:
        >>> find(build_tree(["a/b"]), "./a//b")
        0
    """
    here: int | Tree | None = tree
    for part in path.split("/"):
        if part in ("", "."):
            continue
        if here is None or isinstance(here, int):
            return None
        here = here.get(part)
    return None if path.startswith("/") else here


def walk(tree: Tree, prefix: str = "") -> Iterator[tuple[str, int | Tree]]:
    """Everything below a folder in stored order, as (path, number of the sample or folder); folders come first."""
    under_way = [(prefix, iter(tree.items()))]
    while under_way:
        folder, items = under_way[-1]
        for name, value in items:
            path = f"{folder}{name}"
            yield path, value
            if not isinstance(value, int):
                under_way.append((f"{path}/", iter(value.items())))
                break
        else:
            under_way.pop()


def list_files(tree: Tree) -> dict[str, int]:
    """Paths of all files and the numbers of their samples.

    Example:
        >>> list_files(build_tree(["a/b", "c"]))
        {'a/b': 0, 'c': 1}
    """
    return {path: value for path, value in walk(tree) if isinstance(value, int)}


def build_tree(names: Iterable[str]) -> Tree:
    """The tree of files whose paths are given in the order of their samples.

    Raises:
        ValueError: a path is not relative, is not in its shortest form, or stands where something else is.
    """
    tree: Tree = OrderedDict()
    for number, name in enumerate(names):
        *folders, last = name.split("/")
        here = tree
        try:
            for part in (*folders, last):
                _check_name(part)
        except _Refused as error:
            raise ValueError(f"name {name!r} of sample {number}: {error}") from None
        for part in folders:
            below = here.setdefault(part, OrderedDict())
            if isinstance(below, int):
                raise ValueError(f"name {name!r} of sample {number}: {part!r} is a file already, so nothing is in it")
            here = below
        if last in here:
            raise ValueError(f"name {name!r} of sample {number}: there is another sample or folder of that name")
        here[last] = number
    return tree


def pack_index(tree: Tree) -> bytes:
    """The last sample of a packed folder, byte for byte what FFRecord writes."""
    return INDEX_MAGIC + pickle.dumps(tree, protocol=_PROTOCOL)
