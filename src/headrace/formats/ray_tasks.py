"""Work as tasks of a Ray cluster: of one that runs, or of one that is started on this machine for as long as it takes.

Contract. One thread starts tasks and takes their answers, in the order in which they come. A task is a function of
headrace, called by name in a process of a node; a process or node that dies is made up for by Ray, which runs the task
again, so tasks must be such that they can be run twice. What a task raises arrives as a value and is raised here, with
the task's name and the node's, without a stack of Ray. Leaving the block, by Ctrl-C too, ends all tasks: their
processes are killed, which leaves no files behind that have a name; in a cluster that the program itself has joined
they are interrupted. A cluster that was started here is stopped, and its folder removed; what a killed process left of
its own, the next one removes.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
import platform
import shutil
import socket
import sys
import tempfile
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeAlias

from headrace.errors import HeadraceError, WorkerDiedError, WriteError
from headrace.formats.contract import count_workers
from headrace.formats.process_pool import can_travel
from headrace.registry import require
from headrace.storage import available_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

__all__ = ["EngineName", "RayTasks", "Task", "TaskCall", "check_engine", "fetch_shared", "open_tasks"]

EngineName: TypeAlias = Literal["local", "ray"]
"""Where work is done: by threads of this process, or by tasks of a Ray cluster."""

_log = logging.getLogger("headrace")
_RETRIES = 4
_WAIT_S = 1.0
_GRACE_S = 5.0
_KNOCK_S = 5.0
_FOLDER = "hr-"
_LOCK = "headrace.lock"
_OF_STORES = ("AWS_", "AZURE_", "GOOGLE_")
_MAX_FOLDER = 43  # a socket's name may have 107 bytes, and Ray appends 64
_MIN_STORE_BYTES, _MAX_STORE_BYTES = 128 << 20, 4 << 30
_QUIET = {
    "RAY_USAGE_STATS_ENABLED": "0",  # it would ask, and send
    "RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO": "0",  # it would warn
    "RAY_DEDUP_LOGS": "0",
}


def check_engine(engine: str, address: str | None) -> EngineName:
    """The engine; ValueError when there is none of that name, or an address that nobody uses."""
    if engine not in ("local", "ray"):
        raise ValueError(f"engine must be 'local' or 'ray', got {engine!r}")
    if engine == "local" and address is not None:
        raise ValueError(f"address={address!r} is that of a Ray cluster; give engine='ray' or --engine ray, too")
    return "ray" if engine == "ray" else "local"


class TaskCall(NamedTuple):
    """A task to be started: what it makes or reads, in words, a function of headrace, and what that takes."""

    what: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Task:
    """A task under way: what it makes, in words, where its answer will be, and where its second result stays."""

    what: str
    answer: Any
    kept: Any = None


@dataclass(frozen=True, slots=True)
class _Answer:
    """What came out of a task."""

    value: Any = None
    error: Exception | None = None
    node: str = ""


@dataclass(slots=True)
class RayTasks:
    """Starts tasks and takes their answers; ``open_tasks`` makes it."""

    ray: Any
    workers: int
    store_bytes: int
    is_own: bool
    under_way: dict[Any, Task] = field(default_factory=dict)
    _call: Any = None
    _surroundings: Any = None

    def share(self, value: Any) -> Any:
        """Put a value where all tasks find it; it is an argument like any other."""
        return self.ray.put(value)

    def start(self, what: str, function: Callable[..., Any], *arguments: Any, keeps: bool = False) -> Task:
        """Call a function in a process of the cluster.

        Args:
            what: it makes or reads, for errors.
            function: of a module of headrace.
            *arguments: what it takes.
            keeps: it gives two values, of which the second stays in the cluster: ``fetch_shared`` gets it in a task.
        """
        call = self._call.options(num_returns=2) if keeps else self._call
        found = call.remote(self._surroundings, function, keeps, *arguments)
        task = Task(what, *found) if keeps else Task(what, found)
        self.under_way[task.answer] = task
        return task

    def next_done(self) -> tuple[Task, Any]:
        """Wait for one of the tasks, and give its value; raises what it raised."""
        done: list[Any] = []
        while not done:
            done, _ = self.ray.wait(list(self.under_way), num_returns=1, timeout=_WAIT_S)
        task = self.under_way.pop(done[0])
        try:
            answer: _Answer = self.ray.get(task.answer)
        except self.ray.exceptions.RayError as error:
            raise _explained(self.ray, task.what, error) from None
        if answer.error is not None:
            raise _named(task.what, answer)
        return task, answer.value

    def map(self, calls: Sequence[TaskCall]) -> Iterator[tuple[int, Any]]:
        """Answers of many tasks as they come, each with its number; few more are under way than can run."""
        numbers: dict[Any, int] = {}
        for number, call in enumerate(calls):
            numbers[self.start(call.what, call.function, *call.arguments).answer] = number
            if len(self.under_way) >= 2 * self.workers:
                task, value = self.next_done()
                yield numbers.pop(task.answer), value
        while self.under_way:
            task, value = self.next_done()
            yield numbers.pop(task.answer), value

    def cancel(self) -> None:
        """End all tasks that are under way, and wait until they are gone; nothing can be started afterwards."""
        if not self.under_way:
            return
        refs = list(self.under_way)
        self.under_way.clear()
        if self.is_own:  # ``ray.cancel`` of a task that ends at that moment can end this process (seen in Ray 2.60)
            workers = _workers_of(os.getpid())
            self.ray.shutdown()
            _wait_until_gone(workers)
            return
        with contextlib.suppress(Exception):  # the cluster may be gone
            for ref in refs:
                self.ray.cancel(ref)
            self.ray.wait(refs, num_returns=len(refs), timeout=_GRACE_S)


def _workers_of(process: int) -> list[int]:
    """Processes that Ray has started for one of this machine: they end a moment after Ray itself does."""
    parents: dict[int, int] = {}
    for name in filter(str.isdecimal, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat") as file:
            parents[int(name)] = int(file.read().rpartition(")")[2].split()[1])

    def is_below(number: int) -> bool:
        while number > 1 and number != process:
            number = parents.get(number, 0)
        return number == process

    return [number for number in parents if is_below(number) and _title(number).startswith(b"ray::")]


def _title(process: int) -> bytes:
    with contextlib.suppress(OSError), open(f"/proc/{process}/cmdline", "rb") as file:
        return file.read(64)
    return b""


def _wait_until_gone(processes: list[int]) -> None:
    end_s = time.monotonic() + _GRACE_S
    while any(os.path.exists(f"/proc/{number}") for number in processes) and time.monotonic() < end_s:
        time.sleep(0.02)


@dataclass(frozen=True, slots=True)
class _Surroundings:
    """What the process that starts the work has, and those that do it need.

    Args:
        version: of headrace.
        folder: the current one.
        variables: of the environment, by which stores are reached; Ray's own way to pass them on writes them to logs.
    """

    version: str
    folder: str
    variables: dict[str, str] = field(repr=False)

    @classmethod
    def here(cls) -> _Surroundings:
        used = {name: value for name, value in os.environ.items() if name.startswith(_OF_STORES)}
        return cls(_version(), os.getcwd(), used)

    def enter(self) -> None:
        if self.version != _version():
            raise RuntimeError(
                f"this node has headrace {_version()}, and the process that started the work {self.version}; install "
                "the same version on all nodes"
            )
        os.environ.update(self.variables)
        with contextlib.suppress(OSError):  # it may not be there, where all paths are absolute
            os.chdir(self.folder)


def _call(surroundings: _Surroundings, function: Callable[..., Any], keeps: bool, *arguments: Any) -> Any:
    """Run in a process of the cluster."""
    node = platform.node()
    try:
        surroundings.enter()
        found = function(*arguments)
    except Exception as error:
        answer = _Answer(error=error if can_travel(error) else RuntimeError(_text(error)), node=node)
        return (answer, None) if keeps else answer
    return (_Answer(found[0], node=node), found[1]) if keeps else _Answer(found, node=node)


def fetch_shared(ref: Any) -> Any:
    """What a task has kept in the cluster, in another task."""
    import ray

    return ray.get(ref)


def _version() -> str:
    from importlib.metadata import version

    return version("headrace")


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"


def _named(what: str, answer: _Answer) -> Exception:
    """What a task raised, with what it was about and where; of the same class where that can be said."""
    error = answer.error or RuntimeError()
    is_plain = isinstance(error, HeadraceError | ValueError | TypeError) and len(error.args) == 1
    text = str(error) if is_plain or isinstance(error, OSError) else _text(error)
    text = f"{text} (on node {answer.node})" if text.startswith(what) else f"{what} (on node {answer.node}): {text}"
    if not is_plain:
        return WriteError(text)
    error.args = (text,)
    return error


def _explained(ray: Any, what: str, error: Exception) -> Exception:
    """What Ray raises about a task that has no answer, in words."""
    text = str(error)
    if "No module named 'headrace'" in text:
        return RuntimeError(f"{what}: headrace is not installed on a node of the cluster; install it on all nodes")
    died = (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError, ray.exceptions.OutOfMemoryError)
    if isinstance(error, died):
        return WorkerDiedError(
            f"It was to make or read {what}, and so were {_RETRIES} others after it. Look at the memory of the nodes, "
            "or take smaller shards."
        )
    return WriteError(f"{what}: Ray says {type(error).__name__}: {text.strip().splitlines()[0] if text else ''}")


@contextlib.contextmanager
def open_tasks(*, address: str | None, workers: int | None, needed_by: str) -> Iterator[RayTasks]:
    """Connect to a cluster, or start one on this machine; leaving the block ends all that was begun in it.

    Args:
        address: of a cluster, as ``ray.init`` takes it; None starts one here, or takes that to which the program is
            connected already.
        workers: tasks at a time; by default one for each core of the cluster.
        needed_by: who wants it, for the message when Ray is not installed.
    """
    ray = require("ray", needed_by)
    with contextlib.ExitStack() as stack:
        is_own = not ray.is_initialized()
        if not is_own:
            if address is not None:
                raise ValueError(f"this program is connected to a Ray cluster already; leave out address={address!r}")
        else:
            stack.enter_context(_joined(ray, address) if address is not None else _started(ray, workers))
        resources = ray.cluster_resources()
        count = max(1, int(resources.get("CPU", 1)))
        store = int(resources.get("object_store_memory", _MIN_STORE_BYTES))
        tasks = RayTasks(ray, min(count, count_workers(workers) or 1) if workers else count, store, is_own)
        tasks._call = ray.remote(max_retries=_RETRIES, num_cpus=1)(_call)
        tasks._surroundings = tasks.share(_Surroundings.here())
        stack.callback(tasks.cancel)
        yield tasks


@contextlib.contextmanager
def _joined(ray: Any, address: str) -> Iterator[None]:
    try:
        _knock(address)
        with _quietly():
            ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, ValueError, RuntimeError) as error:
        first = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ConnectionError(
            f"no Ray cluster answers at {address}: {first}. Start one with: ray start --head; leave the address out "
            "to start one on this machine for as long as the work takes"
        ) from None
    try:
        with _unprinted():
            yield
    finally:
        ray.shutdown()


def _knock(address: str) -> None:
    """OSError when nobody listens at an address: Ray itself tries for minutes."""
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if host and port.isdecimal() and int(port) < 1 << 16:
        socket.create_connection((host.strip("[]"), int(port)), timeout=_KNOCK_S).close()


@contextlib.contextmanager
def _started(ray: Any, workers: int | None) -> Iterator[None]:
    with _own_folder() as folder:
        store = max(_MIN_STORE_BYTES, min(_MAX_STORE_BYTES, available_bytes() // 4))
        try:
            with _quietly():
                ray.init(
                    address="local",
                    num_cpus=max(1, count_workers(workers)),
                    num_gpus=0,
                    object_store_memory=store,
                    include_dashboard=False,
                    log_to_driver=False,
                    logging_level=logging.ERROR,
                    _temp_dir=folder,
                )
            with _unprinted():
                yield
        finally:
            ray.shutdown()


@contextlib.contextmanager
def _unprinted() -> Iterator[None]:
    """Keep Ray from printing what it notices, such as a task that is run again, where results are printed.

    It has no option for that: ``log_to_driver`` is about what tasks print.
    """
    worker: Any = sys.modules.get("ray._private.worker")
    before = getattr(worker, "print_to_stdstream", None)
    if before is None:
        yield
        return
    worker.print_to_stdstream = lambda data, *_, **__: _log.info("Ray: %s", " ".join(map(str, data["lines"])))
    try:
        yield
    finally:
        worker.print_to_stdstream = before


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Say to Ray, by the environment of this process, what cannot be said otherwise; what is set already stays."""
    new = {name: value for name, value in _QUIET.items() if name not in os.environ}
    os.environ.update(new)
    try:
        yield
    finally:
        for name in new:
            os.environ.pop(name, None)


@contextlib.contextmanager
def _own_folder() -> Iterator[str]:
    """A folder for Ray's files whose path is short; it goes at the end, and those of killed processes go now."""
    home = tempfile.gettempdir()
    home = home if len(os.path.join(home, f"{_FOLDER}12345678")) <= _MAX_FOLDER else "/tmp"
    _remove_leftovers(home)
    folder = tempfile.mkdtemp(prefix=_FOLDER, dir=home)
    fd = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield folder
    finally:
        _remove(folder)
        os.close(fd)


def _remove_leftovers(home: str) -> None:
    for name in os.listdir(home):
        folder = os.path.join(home, name)
        try:
            if name.startswith(_FOLDER) and os.lstat(folder).st_uid == os.getuid():
                _remove_if_dead(folder)
        except OSError:
            continue  # somebody else removes it


def _remove_if_dead(folder: str) -> None:
    fd = os.open(os.path.join(folder, _LOCK), os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        _remove(folder)
    finally:
        os.close(fd)


def _remove(folder: str) -> None:
    """Remove a folder; Ray's processes may write their last lines while they end."""
    end_s = time.monotonic() + _GRACE_S
    while os.path.isdir(folder):
        shutil.rmtree(folder, ignore_errors=True)
        if time.monotonic() > end_s:
            return
        time.sleep(0.05)
