"""The pickles that indices of packed folders are, read without unpickling.

A pickle can run code. A small machine here knows the few instructions that an index is made of (protocols 0 to 5) and
can build nothing but dicts, text and integers. Every other instruction, every other global, and a dict that gets two
places are refused.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

__all__ = ["Refused", "parse_index"]

_MAX_DIGITS = 19


class Refused(Exception):
    """Why an index is not read."""


class _Mark:
    """Where the items of a tuple or of a dict begin."""


_MARK = _Mark()
_CLASS = object()  # collections.OrderedDict, as an instruction that makes one
_EMPTY: tuple[()] = ()


def parse_index(data: bytes) -> Any:
    """What a pickle of nested dicts of integers says; Refused when it is, or does, anything else."""
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
                raise Refused(f"it ends after {len(data)} bytes, in the middle")
            code = data[self._at]
            self._at += 1
            if code == 0x2E:  # STOP
                return self._result()
            method = methods.get(code)
            if method is None:
                raise Refused(f"instruction {code:#04x} at byte {self._at - 1} does not belong into an index")
            method(self)

    def _result(self) -> Any:
        result = self._pop()
        if self._stack:
            raise Refused(f"{len(self._stack)} values are left over")
        return result

    def _pop(self) -> Any:
        if not self._stack:
            raise Refused(f"nothing is left to take at byte {self._at}")
        return self._stack.pop()

    def _take(self, count: int) -> bytes:
        piece = self._data[self._at : self._at + count]
        if len(piece) != count:
            raise Refused(f"it ends after {len(self._data)} bytes, in the middle")
        self._at += count
        return piece

    def _number(self, count: int, *, signed: bool = False) -> int:
        return int.from_bytes(self._take(count), "little", signed=signed)

    def _line(self) -> str:
        end = self._data.find(b"\n", self._at)
        if end < 0:
            raise Refused(f"it ends after {len(self._data)} bytes, in the middle")
        line = self._data[self._at : end]
        self._at = end + 1
        try:
            return line.decode("ascii")
        except UnicodeDecodeError:
            raise Refused(f"text that is not ASCII at byte {self._at}") from None

    def _text(self, data: bytes) -> None:
        try:
            self._stack.append(data.decode("utf-8", "surrogatepass"))
        except UnicodeDecodeError:
            raise Refused(f"a name before byte {self._at} is not UTF-8") from None

    def proto(self) -> None:
        if self._number(1) > 5:
            raise Refused("its pickle protocol is not known")

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
            raise Refused(f"a name before byte {self._at} has a wrong escape") from None

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
            raise Refused(f"{line[:20]!r} before byte {self._at} is not a number of a sample")
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
            raise Refused(f"{line[:20]!r} before byte {self._at} is not a number")
        return int(line)

    def _get(self, key: int) -> None:
        if key not in self._memo:
            raise Refused(f"it refers to a value that does not exist at byte {self._at}")
        self._stack.append(self._memo[key])

    def named_class(self) -> None:
        self._push_class(self._line(), self._line())

    def stacked_class(self) -> None:
        name, module = self._pop(), self._pop()
        self._push_class(module, name)

    def _push_class(self, module: Any, name: Any) -> None:
        if (module, name) != ("collections", "OrderedDict"):
            raise Refused(f"it wants to call {module}.{name}")
        self._stack.append(_CLASS)

    def mark(self) -> None:
        self._stack.append(_MARK)

    def _items(self) -> list[Any]:
        for position in range(len(self._stack) - 1, -1, -1):
            if self._stack[position] is _MARK:
                items = self._stack[position + 1 :]
                del self._stack[position:]
                return items
        raise Refused(f"items without a beginning at byte {self._at}")

    def empty_tuple(self) -> None:
        self._stack.append(_EMPTY)

    def marked_tuple(self) -> None:
        if self._items():
            raise Refused(f"arguments for a call at byte {self._at}")
        self._stack.append(_EMPTY)

    def call(self) -> None:
        arguments, what = self._pop(), self._pop()
        if what is not _CLASS or arguments is not _EMPTY:
            raise Refused(f"a call of something else than OrderedDict at byte {self._at}")
        self.empty_dict()

    def empty_dict(self) -> None:
        made: OrderedDict[str, Any] = OrderedDict()
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
            raise Refused(f"items of something that is not a folder at byte {self._at}")
        for key, value in zip(items[::2], items[1::2], strict=True):
            if type(key) is not str or key in target:
                raise Refused(f"a name that is no text, or a second time the same, before byte {self._at}")
            if isinstance(value, OrderedDict):
                if id(value) in self._placed:
                    raise Refused(f"the folder {key!r} has two places")
                self._placed.add(id(value))
            elif type(value) is not int:
                raise Refused(f"{key!r} is neither a folder nor the number of a sample")
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
