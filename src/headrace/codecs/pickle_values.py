"""Plain values and arrays of numbers from a pickle, which is read but never run.

A pickle is a program and can run any code. ``pickletools`` takes it apart into instructions, and the machine here knows
only those that build values: numbers, text, bytes, tuples, lists, dicts, sets, and arrays of numbers or text. The names
that numpy and older protocols need lead to functions of this module, which check what they are given. Every other
instruction and every other name is refused, and so is what would cost much more than the pickle's own size: values
that contain themselves, values nested too deeply, values that are huge through references, keys made to collide, arrays
with more bytes than there are.
"""

from __future__ import annotations

import math
import pickle
import pickletools
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple, NoReturn, TypeAlias, TypeVar, cast

import numpy as np

from headrace.progress import format_count

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterable

__all__ = ["MAX_DEPTH", "RefusedPickleError", "load_values"]

MAX_DEPTH = 1000
"""So many values may be nested in one another."""
_MAX_KEY = 10_000  # values in one key, which are counted as often as they are looked at
_MAX_SAME_HASH = 100  # keys of a dict or set with one hash: each is compared with all the others
_MAX_AXES = 64  # numpy has no more
# Honest pickles stay below: a million empty lists are 430 MB by these numbers, and a thousand references to one list of
# a thousand numbers are a million values.
_LEAST_MEMORY, _MEMORY_FACTOR = 256 << 20, 128
_LEAST_WEIGHT, _WEIGHT_FACTOR = 10_000_000, 64
_MEMO_BYTES = 130  # an entry of the memo, or of another table here
_CONTAINER_BYTES = 300  # a list, dict, set or tuple, with what is known of it
_PLAIN_INT = (1 << 61) - 1  # below it two numbers never have one hash
_MAX_PROTOCOL = 5
_KINDS = frozenset("biufcSU")
_CORES = ("numpy.core", "numpy._core")

# What pickletools and numpy say of damage.
_DAMAGE = (ValueError, TypeError, LookupError, ArithmeticError, MemoryError, RecursionError, EOFError, Warning)

_Array: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.generic]]"
_Container = TypeVar("_Container", bound="list[object] | dict[Hashable, object] | set[Hashable]")


class RefusedPickleError(pickle.UnpicklingError):
    """Why a pickle is not read."""


def load_values(data: bytes) -> object:
    """The value that a pickle holds.

    Raises:
        RefusedPickleError: the pickle is damaged, or is more than plain values and arrays of numbers.

    Example:
        >>> load_values(pickle.dumps({"a": [1, 2.5, (None, b"x")]}))
        {'a': [1, 2.5, (None, b'x')]}
    """
    machine = _Machine(len(data))
    try:
        for instruction, argument, position in pickletools.genops(data):
            machine.position = position or 0
            machine.run(instruction.name, argument)
    except RefusedPickleError:
        raise
    except _DAMAGE as error:
        raise RefusedPickleError(f"the pickle is damaged ({str(error) or type(error).__name__})") from None
    return machine.result()


class _Name(NamedTuple):
    """A name that the pickle may use, in the place of what it stands for."""

    module: str
    name: str


class _Type:
    """A type of numbers or text, while it is put together."""

    def __init__(self, dtype: np.dtype[np.generic]) -> None:
        self.dtype = dtype


class _Facts(NamedTuple):
    """What is known of a value that holds others; it also keeps the value alive, and with it its id."""

    value: object
    depth: int
    weight: int  # values in it, counted as often as they are reached
    is_plain: bool  # no names or types in it, which are only there for calls


_SCALAR = _Facts(None, 0, 1, True)
_NOT_A_VALUE = _Facts(None, 0, 1, False)


class _Machine:
    """Runs the instructions of one pickle.

    A list, dict or set that has a place in another value cannot change any more. So no value contains itself, and depth
    and weight are known when a value is put somewhere.
    """

    def __init__(self, size: int) -> None:
        self.position = 0
        self._stack: list[object] = []
        self._marks: list[int] = []
        self._memo: dict[int, object] = {}
        self._facts: dict[int, _Facts] = {}
        self._placed: set[int] = set()
        self._new_arrays: dict[int, _Array] = {}
        self._bytes_left = 2 * size  # of what calls make: honest pickles hold all bytes of their arrays
        self._memory_left = _LEAST_MEMORY + _MEMORY_FACTOR * size  # of the values themselves, estimated
        self._most_weight = _LEAST_WEIGHT + _WEIGHT_FACTOR * size
        self._key_work_left = self._most_weight  # values that are looked at because they are in keys
        self._same_hashes: dict[tuple[int, int], int] = {}  # by container and hash

    def run(self, name: str, argument: object) -> None:
        """Run one instruction."""
        if name in _VALUES:
            self._stack.append(argument)
        elif name in _CONSTANTS:
            self._stack.append(_CONSTANTS[name])
        elif name == "MEMOIZE":
            self._remember(len(self._memo))
        elif name in _PUTS:
            self._remember(cast("int", argument))
        elif name in _GETS:
            if argument not in self._memo:
                self._refuse(f"it refers to value {argument}, which does not exist")
            self._stack.append(self._memo[argument])
        else:
            method = _METHODS.get(name)
            if method is None:
                self._refuse(f"the instruction {name} builds no plain value")
            method(self, argument)

    def result(self) -> object:
        """The value, when all instructions were run."""
        if len(self._stack) != 1 or self._marks:
            self._refuse(f"{format_count(len(self._stack), 'value')} left at the end")
        if not self._facts_of(self._stack[0]).is_plain:
            self._refuse("the value is a name or a type")
        return self._stack[0]

    def _refuse(self, problem: str) -> NoReturn:
        raise RefusedPickleError(f"{problem} (at byte {self.position})")

    def _remember(self, number: int) -> None:
        self._take_memory(_MEMO_BYTES)
        self._memo[number] = self._top()

    def _take_memory(self, size: int) -> None:
        self._memory_left -= size
        if self._memory_left < 0:
            self._refuse("its values take far more memory than the pickle is large")

    # The stack

    def _top(self) -> object:
        if len(self._stack) <= (self._marks[-1] if self._marks else 0):
            self._refuse("a value is missing")
        return self._stack[-1]

    def take(self, count: int) -> list[object]:
        """The last values, in their order."""
        if len(self._stack) - count < (self._marks[-1] if self._marks else 0):
            self._refuse("a value is missing")
        return [self._stack.pop() for _ in range(count)][::-1]

    def items(self) -> list[object]:
        """The values since the last mark."""
        if not self._marks:
            self._refuse("items have no beginning")
        start = self._marks.pop()
        items = self._stack[start:]
        del self._stack[start:]
        return items

    def _facts_of(self, value: object) -> _Facts:
        if isinstance(value, _Name | _Type) or id(value) in self._new_arrays:
            return _NOT_A_VALUE
        return self._facts.get(id(value), _SCALAR)

    def _note(self, value: object, parts: Iterable[object]) -> None:
        """Take down what is known of a value after parts were put into it."""
        known = self._facts.get(id(value))
        if known is None:
            self._take_memory(_CONTAINER_BYTES)
            known = _Facts(value, 1, 1, True)
        _, depth, weight, is_plain = known
        for part in parts:
            if type(part) in _SCALARS:
                weight += 1
                continue
            facts = self._facts_of(part)
            depth = max(depth, facts.depth + 1)
            weight += facts.weight
            is_plain = is_plain and facts.is_plain
            if id(part) in self._facts:
                self._placed.add(id(part))
        if id(value) in self._placed:
            self._refuse(f"a {type(value).__name__} changes after it got a place, so it might contain itself")
        if depth > MAX_DEPTH:
            self._refuse(f"values are nested more than {MAX_DEPTH} deep")
        if weight > self._most_weight:
            self._refuse("values are repeated so often that to look at all of them would never end")
        if not is_plain and not isinstance(value, tuple):
            self._refuse("a name or a type stands where a value should be")
        self._facts[id(value)] = _Facts(value, depth, weight, is_plain)

    def _push(self, value: object, parts: Iterable[object] = ()) -> None:
        self._note(value, parts)
        self._stack.append(value)

    def _key(self, value: object, container: int) -> Hashable:
        """A value that can be a key of a container, and costs no more than others do."""
        kind = type(value)
        if kind is str or kind is bytes or (kind is int and -_PLAIN_INT < cast("int", value) < _PLAIN_INT):
            return value
        if kind not in _SCALARS and not isinstance(value, tuple | frozenset | np.generic):
            self._refuse(f"a {kind.__name__} cannot be a key")
        weight = self._facts_of(value).weight
        self._key_work_left -= weight
        if weight > _MAX_KEY or self._key_work_left < 0:
            self._refuse(f"a {kind.__name__} is too large to be a key")
        try:
            place = container, hash(value)
        except TypeError as error:
            self._refuse(f"a key cannot be used ({error})")
        self._take_memory(_MEMO_BYTES)
        self._same_hashes[place] = self._same_hashes.get(place, 0) + 1
        if self._same_hashes[place] > _MAX_SAME_HASH:
            self._refuse(f"more than {_MAX_SAME_HASH} keys have the same hash")
        return value

    # Protocol, marks, tuples, lists, dicts, sets

    def check_protocol(self, argument: object) -> None:
        if cast("int", argument) > _MAX_PROTOCOL:
            self._refuse(f"protocol {argument} is not known")

    def old_text(self, argument: object) -> None:
        if not cast("str", argument).isascii():
            self._refuse("bytes of Python 2 that are not ASCII")
        self._stack.append(argument)

    def mark(self) -> None:
        self._marks.append(len(self._stack))

    def make_tuple(self, items: list[object]) -> None:
        if items:
            self._push(tuple(items), items)
        else:
            self._stack.append(())

    def make_list(self, items: list[object]) -> None:
        self._push(items, items)

    def make_dict(self, items: list[object]) -> None:
        self._push({})
        self.fill(items)

    def make_set(self, items: object) -> None:
        parts = self._list_of(items)
        found: set[Hashable] = set()
        found.update([self._key(item, id(found)) for item in parts])
        self._push(found, parts)

    def make_frozenset(self, items: object) -> None:
        parts = self._list_of(items)
        here = -1 - self.position  # it has no id yet
        self._push(frozenset([self._key(item, here) for item in parts]), parts)

    def _list_of(self, items: object) -> list[object]:
        if not isinstance(items, list):
            self._refuse("the items of a set are not a list")
        return items

    def extend(self, items: list[object]) -> None:
        target = self._growing(list)
        self._note(target, items)
        target.extend(items)

    def fill(self, items: list[object]) -> None:
        target = self._growing(dict)
        if len(items) % 2:
            self._refuse("a key has no value")
        for item, value in zip(items[::2], items[1::2], strict=True):
            key = self._key(item, id(target))
            if key in target:
                self._refuse("a dict has a key twice")
            target[key] = value
        self._note(target, items)

    def update(self, items: list[object]) -> None:
        target = self._growing(set)
        target.update([self._key(item, id(target)) for item in items])
        self._note(target, items)

    def _growing(self, kind: type[_Container]) -> _Container:
        """The container that the next items go into."""
        target = self._top()
        if not isinstance(target, kind):
            self._refuse(f"items of a {kind.__name__} for a {type(target).__name__}")
        return target

    # Names and calls

    def push_name(self, module: object, name: object) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            self._refuse("a name is not text")
        wanted = _Name("builtins" if module == "__builtin__" else module, name)
        if wanted not in _CALLS and wanted != _NDARRAY:
            self._refuse(f"it names {module:.60}.{name:.60}, and reading it could run any code")
        self._stack.append(wanted)

    def call(self, name: object, arguments: object) -> None:
        if not isinstance(name, _Name) or name not in _CALLS or not isinstance(arguments, tuple):
            # The text of a tuple could be endless.
            shown = f"{name!r:.60}" if type(name) in (*_SCALARS, _Name) else f"a {type(name).__name__}"
            self._refuse(f"a call of {shown}")
        self._take_memory(_CONTAINER_BYTES)
        try:
            _CALLS[name](self, *arguments)
        except (TypeError, ValueError) as error:
            self._refuse(f"a call of {name.module}.{name.name} with arguments that it does not take ({error})")

    def _spend(self, size: int) -> None:
        self._bytes_left -= size
        if self._bytes_left < 0:
            self._refuse("its arrays hold more bytes than the pickle")

    def make_ordered_dict(self) -> None:
        self._push(OrderedDict())

    def make_complex(self, real: object, imaginary: object) -> None:
        if not isinstance(real, float) or not isinstance(imaginary, float):
            self._refuse("a complex number that is not made of two numbers")
        self._stack.append(complex(real, imaginary))

    def make_bytes(self, *arguments: object) -> None:
        """The bytes of protocols that have no bytes: empty ones, or text in which each character is a byte."""
        if arguments == ():
            self._stack.append(b"")
            return
        text, encoding = arguments
        if not isinstance(text, str) or encoding != "latin1":
            self._refuse("bytes that are not stored as latin1")
        self._spend(len(text))
        self._stack.append(text.encode("latin1"))

    # Arrays

    def make_type(self, name: object, align: object = False, copy: object = True) -> None:
        if not isinstance(name, str) or len(name) > 20:
            self._refuse("the name of a type is not text")
        try:
            dtype = np.dtype(name)
        except (TypeError, ValueError, SyntaxError):  # numpy evaluates a part of the text
            self._refuse(f"there is no type {name!r}")
        if dtype.kind not in _KINDS:
            self._refuse(f"an array of type {name!r} is not plain numbers or text")
        self._stack.append(_Type(dtype))

    def begin_array(self, kind: object, shape: object, code: object) -> None:
        if kind != _NDARRAY or shape != (0,):
            self._refuse("this is not how a plain array begins")
        array = np.ndarray((0,), np.uint8)
        self._new_arrays[id(array)] = array
        self._stack.append(array)

    def make_scalar(self, kind: object, data: object) -> None:
        self._stack.append(self._checked_array(kind, (), data)[()])

    def make_array(self, data: object, kind: object, shape: object, order: object) -> None:
        if order not in ("C", "F"):
            self._refuse("the order of an array is neither C nor F")
        array = self._checked_array(kind, shape, data)
        self._stack.append(array.reshape(array.shape[::-1]).T if order == "F" else array)

    def build(self, state: object) -> None:
        """Give a type or an array its state."""
        target = self._top()
        if isinstance(target, _Type):
            self._set_order(target, state)
            return
        array = self._new_arrays.pop(id(target), None)
        if array is None or not isinstance(state, tuple) or len(state) != 5:
            self._refuse("a state that is not that of a plain array")
        _, shape, kind, is_fortran, data = state
        found = self._checked_array(kind, shape, data)
        # The array is known to the memo, so it takes on the state instead of making room for another.
        taken = (1, found.shape, found.dtype, int(bool(is_fortran)), bytes(data))
        array.__setstate__(taken)  # type: ignore[arg-type]  # the stub wants a bool, numpy an int

    def _set_order(self, kind: _Type, state: object) -> None:
        if not isinstance(state, tuple) or len(state) < 5 or state[2:5] != (None, None, None):
            self._refuse("the type of an array is not plain numbers or text")
        if state[1] not in ("<", ">", "|", "="):
            self._refuse("the order of the bytes of a type is not known")
        kind.dtype = kind.dtype.newbyteorder(state[1])

    def _checked_array(self, kind: object, shape: object, data: object) -> _Array:
        if not isinstance(kind, _Type) or not isinstance(data, bytes | bytearray):
            self._refuse("an array without a type or without bytes")
        if not isinstance(shape, tuple) or len(shape) > _MAX_AXES:
            self._refuse("the shape of an array is not a few numbers")
        if any(type(side) is not int or not 0 <= side < 1 << 63 for side in shape):
            self._refuse("a side of an array is not a number of values")
        if not kind.dtype.itemsize or math.prod(shape) * kind.dtype.itemsize != len(data):
            self._refuse(f"an array of shape {shape} and type {kind.dtype} with {format_count(len(data), 'byte')}")
        self._spend(len(data))
        if not data:
            return np.zeros(shape, kind.dtype)
        return np.frombuffer(data, kind.dtype).reshape(shape)


_VALUES = {
    *("INT", "BININT", "BININT1", "BININT2", "LONG", "LONG1", "LONG4", "FLOAT", "BINFLOAT"),
    *("UNICODE", "BINUNICODE", "SHORT_BINUNICODE", "BINUNICODE8"),
    *("BINBYTES", "SHORT_BINBYTES", "BINBYTES8", "BYTEARRAY8"),
}
_CONSTANTS = {"NONE": None, "NEWTRUE": True, "NEWFALSE": False, "EMPTY_TUPLE": ()}
_PUTS = frozenset({"PUT", "BINPUT", "LONG_BINPUT"})
_GETS = frozenset({"GET", "BINGET", "LONG_BINGET"})
_SCALARS = frozenset({int, str, float, bool, bytes, complex, type(None)})
_METHODS: dict[str, Callable[[_Machine, object], None]] = {
    "PROTO": _Machine.check_protocol,
    "FRAME": lambda machine, _: None,  # only says how much to read ahead
    "STOP": lambda machine, _: None,
    "STRING": _Machine.old_text,
    "BINSTRING": _Machine.old_text,
    "SHORT_BINSTRING": _Machine.old_text,
    "MARK": lambda machine, _: machine.mark(),
    "TUPLE": lambda machine, _: machine.make_tuple(machine.items()),
    "TUPLE1": lambda machine, _: machine.make_tuple(machine.take(1)),
    "TUPLE2": lambda machine, _: machine.make_tuple(machine.take(2)),
    "TUPLE3": lambda machine, _: machine.make_tuple(machine.take(3)),
    "EMPTY_LIST": lambda machine, _: machine.make_list([]),
    "LIST": lambda machine, _: machine.make_list(machine.items()),
    "APPEND": lambda machine, _: machine.extend(machine.take(1)),
    "APPENDS": lambda machine, _: machine.extend(machine.items()),
    "EMPTY_DICT": lambda machine, _: machine.make_dict([]),
    "DICT": lambda machine, _: machine.make_dict(machine.items()),
    "SETITEM": lambda machine, _: machine.fill(machine.take(2)),
    "SETITEMS": lambda machine, _: machine.fill(machine.items()),
    "EMPTY_SET": lambda machine, _: machine.make_set([]),
    "ADDITEMS": lambda machine, _: machine.update(machine.items()),
    "FROZENSET": lambda machine, _: machine.make_frozenset(machine.items()),
    "GLOBAL": lambda machine, argument: machine.push_name(*str(argument).split(" ", 1)),
    "STACK_GLOBAL": lambda machine, _: machine.push_name(*machine.take(2)),
    "REDUCE": lambda machine, _: machine.call(*machine.take(2)),
    "BUILD": lambda machine, _: machine.build(*machine.take(1)),
}
_NDARRAY = _Name("numpy", "ndarray")
_CALLS: dict[_Name, Callable[..., None]] = {
    _Name("collections", "OrderedDict"): _Machine.make_ordered_dict,
    _Name("builtins", "set"): _Machine.make_set,
    _Name("builtins", "frozenset"): _Machine.make_frozenset,
    _Name("builtins", "complex"): _Machine.make_complex,
    _Name("builtins", "bytes"): _Machine.make_bytes,
    _Name("_codecs", "encode"): _Machine.make_bytes,
    _Name("numpy", "dtype"): _Machine.make_type,
    **{_Name(f"{core}.multiarray", "_reconstruct"): _Machine.begin_array for core in _CORES},
    **{_Name(f"{core}.multiarray", "scalar"): _Machine.make_scalar for core in _CORES},
    **{_Name(f"{core}.numeric", "_frombuffer"): _Machine.make_array for core in _CORES},
}
