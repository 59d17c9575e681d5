from __future__ import annotations

import sys
import threading
import types
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tests.helpers import picture

torch = pytest.importorskip("torch")

from tests.unit.compat.ffcv.tools import Doubler, write  # noqa: E402

from headrace.compat.ffcv import Loader  # noqa: E402
from headrace.compat.ffcv.fields import FloatField  # noqa: E402
from headrace.compat.ffcv.fields.decoders import FloatDecoder  # noqa: E402
from headrace.compat.ffcv.fields.rgb_image import encode_jpeg  # noqa: E402
from headrace.compat.ffcv.libffcv import imdecode, memcpy, read, resize_crop, take_failure  # noqa: E402
from headrace.compat.ffcv.pipeline.compiler import Compiler  # noqa: E402
from headrace.compat.ffcv.pipeline.operation import Operation  # noqa: E402
from headrace.compat.ffcv.transforms import ToTensor  # noqa: E402
from headrace.errors import ImageError  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path


class Refusal(Exception):
    """What numba raises for code that it cannot compile."""


Refusal.__module__ = "numba.core.errors"


class FakeNumba(types.ModuleType):
    """As much of numba as the adapters use; says what it was asked for."""

    def __init__(self, *, refuses: bool = False) -> None:
        super().__init__("numba")
        self.asked: list[dict[str, Any]] = []
        self.calls = 0
        self.threads = 0
        self.refuses = refuses
        self.config = types.SimpleNamespace(NUMBA_NUM_THREADS=2)
        self.prange = lambda *numbers: range(*numbers)

    def set_num_threads(self, count: int) -> None:
        assert 1 <= count <= 2, "the number of threads must be between 1 and 2"
        self.threads = count

    def njit(self, signature: Any, **options: Any) -> Callable[..., Any]:
        self.asked.append(options | {"signature": signature})

        def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
            def compiled(*arguments: Any) -> Any:
                self.calls += 1
                if self.refuses:
                    raise Refusal("cannot type this")
                return function(*arguments)

            compiled.py_func = function  # type: ignore[attr-defined]
            return compiled

        return decorate


@pytest.fixture(autouse=True)
def defaults() -> Iterator[None]:
    yield
    Compiler.set_enabled(True)
    Compiler.num_threads = 1


@pytest.fixture
def numba(monkeypatch: pytest.MonkeyPatch) -> FakeNumba:
    fake = FakeNumba()
    monkeypatch.setitem(sys.modules, "numba", fake)
    return fake


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return write(tmp_path / "x", {"v": FloatField()}, 8, lambda i: (i,))


def double(x: int) -> int:
    return 2 * x


def doubled(path: Path, **options: Any) -> list[float]:
    pipelines = {"v": [FloatDecoder(), Doubler(), ToTensor()]}
    return [float(v) for (batch,) in Loader(path, 4, 2, pipelines=pipelines, **options) for v in batch]


def test_without_numba_code_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "numba", None)
    Compiler.set_num_threads(8)
    assert Compiler.compile(double) is double
    assert Compiler.get_iterator() is range


def test_with_numba_it_is_compiled(numba: FakeNumba) -> None:
    Compiler.set_num_threads(1)
    assert Compiler.compile(double, "int64(int64)")(4) == 8
    assert numba.asked == [
        {"signature": "int64(int64)", "fastmath": True, "nogil": True, "error_model": "numpy", "parallel": False}
    ]
    assert Compiler.get_iterator() is range


@pytest.mark.parametrize(("threads", "is_parallel"), [(1, False), (2, True), (64, True)])
def test_parallel_code(numba: FakeNumba, threads: int, is_parallel: bool) -> None:
    def loop(x: int) -> int:
        return x

    loop.is_parallel = True  # type: ignore[attr-defined]
    Compiler.set_num_threads(threads)
    Compiler.compile(loop)
    Compiler.compile(double)
    assert [asked["parallel"] for asked in numba.asked] == [is_parallel, False]
    assert numba.threads == min(threads, 2)  # more than numba has is no error
    assert (Compiler.get_iterator() is numba.prange) is is_parallel


def test_each_thread_that_calls_uses_as_many(numba: FakeNumba, path: Path) -> None:
    """numba has the number by thread, and batches are made in threads of their own."""

    class Parallel(Doubler):
        def generate_code(self) -> Callable[..., Any]:
            code = super().generate_code()
            code.is_parallel = True  # type: ignore[attr-defined]
            return code

    asked = []
    numba.set_num_threads = lambda count: asked.append((threading.current_thread().name, count))  # type: ignore[method-assign]
    list(Loader(path, 4, 2, pipelines={"v": [FloatDecoder(), Parallel(), ToTensor()]}))
    assert ("headrace-loader", 2) in asked


def test_all_cores_by_default(numba: FakeNumba) -> None:
    Compiler.set_num_threads(0)
    assert Compiler.num_threads >= 1


def test_disabled(numba: FakeNumba) -> None:
    Compiler.set_enabled(False)
    assert Compiler.compile(double) is double
    Compiler.set_enabled(True)
    assert Compiler.compile(double) is not double


def test_native_functions_are_compiled_in_the_form_that_numba_can_call(numba: FakeNumba) -> None:
    assert Compiler.compile(read) is read
    assert Compiler.compile(memcpy) is not memcpy
    pixels, part = np.arange(4 * 5 * 3, dtype=np.uint8).reshape(4, 5, 3), np.zeros((2, 2, 3), np.uint8)
    Compiler.compile(resize_crop)(pixels, 1, 3, 2, 4, part)
    assert (part == pixels[1:3, 2:4]).all()
    out, data = np.zeros((16, 24, 3), np.uint8), encode_jpeg(picture(0, 16, 24), 90)
    assert Compiler.compile(imdecode)(data, out, 16, 24, 16, 24, 0, 0, 1, 1, False, False) == 0
    expected = np.zeros_like(out)
    imdecode(data, expected, 16, 24)
    assert (out == expected).all()
    small = np.zeros((8, 12, 3), np.uint8)
    assert Compiler.compile(imdecode)(data, small, 16, 24, 16, 24, 0, 0, 1, 2, False, True) == 0
    assert abs(small[:, ::-1].astype(int) - out.reshape(8, 2, 12, 2, 3).mean((1, 3))).mean() < 8


def test_a_call_by_address_tells_what_went_wrong(numba: FakeNumba, path: Path) -> None:
    out, data = np.zeros((16, 24, 3), np.uint8), encode_jpeg(picture(0, 16, 24), 90)
    decode, resize = Compiler.compile(imdecode), Compiler.compile(resize_crop)
    assert decode(data[:50].copy(), out, 16, 24, 16, 24) == -1
    assert "ends inside" in str(take_failure())
    assert take_failure() is None
    assert decode(data, out, 16, 24, 16, 24, 0, 0, 3, 7) == -1
    assert take_failure() == "imdecode scales by 1, 1/2, 1/4 and 1/8"
    assert decode(data, out, 16, 24, 16, 24, 1, 0, 1, 1, True) == -1
    resize(out, 0, 17, 0, 24, out[:4, :4].copy())
    assert take_failure() is not None

    class Damaged(Operation):
        def declare_state_and_memory(self, previous_state: Any) -> tuple[Any, None]:
            return previous_state, None

        def generate_code(self) -> Callable[..., Any]:
            def fail(values: Any, _: Any) -> Any:
                decode(data[:50].copy(), out, 16, 24, 16, 24)
                return values

            return fail

    with pytest.raises(ImageError, match="a call of imdecode or resize_crop failed: JPEG header"):
        list(Loader(path, 4, 2, pipelines={"v": [FloatDecoder(), Damaged(), ToTensor()]}))


def test_own_operations_are_compiled(numba: FakeNumba, path: Path) -> None:
    assert doubled(path) == [2.0 * i for i in range(8)]
    assert numba.calls == 2  # one for each batch


def test_what_numba_refuses_runs_as_it_is(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    fake = FakeNumba(refuses=True)
    monkeypatch.setitem(sys.modules, "numba", fake)
    with pytest.warns(
        RuntimeWarning, match="numba cannot compile the operation Doubler; it runs as plain Python"
    ) as caught:
        assert doubled(path) == [2.0 * i for i in range(8)]
    assert len(caught) == 1
    assert fake.calls == 1


def test_numba_is_not_loaded_for_operations_of_ffcv(monkeypatch: pytest.MonkeyPatch, path: Path) -> None:
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    asked: list[str] = []
    real = Compiler.compile.__func__  # type: ignore[attr-defined]
    monkeypatch.setattr(
        Compiler, "compile", classmethod(lambda cls, code, s=None: asked.append(code) or real(cls, code, s))
    )
    batches = list(Loader(path, 4, 2))
    assert len(batches) == 2
    assert all(getattr(code, "is_native", False) for code in asked)


def test_memcpy_checks_its_arguments() -> None:
    with pytest.raises(ValueError, match="more bytes to copy than there is room"):
        memcpy(np.zeros(5), np.zeros(4))
    with pytest.raises(ValueError, match="contiguous"):
        memcpy(np.zeros(2), np.zeros(8)[::2])
    target = np.zeros(5, "<i4")
    memcpy(np.arange(6, dtype="<i4")[::2], target)
    assert target.tolist() == [0, 2, 4, 0, 0]
