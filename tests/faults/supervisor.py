"""A process whose calls to the system are answered by another one.

The child asks Linux, by a seccomp filter, to hold it at each call that changes something. This process is told, sees
which file the call is about, and lets it go on, answers in its place, or kills the child. That is what ``strace -e
inject`` does, without a tracer for each run: a run costs a fork, so that thousands of them are cheap. It needs no
privileges, only Linux 5.9 or newer on x86-64.

Contract: one thread of one process calls ``supervised``; the child is a fork of it, in a session of its own, and no
process of that session is alive when it returns.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import fcntl
import os
import platform
import select
import signal
import socket
import struct
import time
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Literal

from tests.faults.calls import CALLS, CHANGES, O_CHANGES, SYNCS

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["Answer", "Request", "Run", "no_syncs", "supervised", "why_not"]

_SECCOMP, _PIDFD_GETFD, _NO_NEW_PRIVILEGES = 317, 438, 38
_FILTER_MODE, _NEW_LISTENER = 1, 8
_ARCHITECTURE = 0xC000003E  # x86-64
_ALLOW, _NOTIFY, _ERRNO = 0x7FFF0000, 0x7FC00000, 0x00050000
_RECEIVE, _SEND = 0xC0502100, 0xC0182101
_CONTINUE = 1
_NOTE = struct.Struct("<QIIiIQ6Q")
_REPLY = struct.Struct("<QqiI")
_AT_CWD = 0xFFFFFF9C
_LOAD, _EQUAL, _HAS_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06

_libc = ctypes.CDLL(None, use_errno=True)

Answer = int | Literal["go", "short", "torn", "kill"] | None
"""What to do with a call: an errno; let it go; do half of it; do half of it and kill; kill. None is for "go"."""


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("code", ctypes.c_void_p))


def _step(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, if_true, if_false, value)


def _by_number(rules: dict[int, list[bytes]]) -> list[bytes]:
    """A filter: what to do for some numbers of calls; all others are allowed."""
    steps = [_step(_LOAD, 4), _step(_EQUAL, _ARCHITECTURE, 1, 0), _step(_RETURN, _ALLOW), _step(_LOAD, 0)]
    for number, rule in rules.items():
        steps += [_step(_EQUAL, number, 0, len(rule)), *rule]
    return [*steps, _step(_RETURN, _ALLOW)]


def _notify_changes() -> list[bytes]:
    rules = {}
    for name, call in CALLS.items():
        rule = [_step(_RETURN, _NOTIFY)]
        if call.flags is not None and name != "openat2":  # which has them in memory
            load = _step(_LOAD, 16 + 8 * call.flags)
            rule = [load, _step(_HAS_BIT, O_CHANGES, 0, 1), *rule, _step(_RETURN, _ALLOW)]
        rules[call.number] = rule
    return _by_number(rules)


def _install(steps: list[bytes], flags: int) -> int:
    code = b"".join(steps)
    memory = ctypes.create_string_buffer(code, len(code))
    program = _Program(len(steps), ctypes.addressof(memory))
    if _libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "prctl")
    result: int = _libc.syscall(_SECCOMP, _FILTER_MODE, flags, ctypes.byref(program))
    if result < 0:
        raise OSError(ctypes.get_errno(), "seccomp")
    return result


def no_syncs() -> None:
    """From now on, waiting for the disk takes no time in this process: fsync does nothing."""
    _install(_by_number({CALLS[name].number: [_step(_RETURN, _ERRNO)] for name in SYNCS}), 0)


@cache
def why_not() -> str | None:
    """Why processes cannot be supervised here, or None if they can."""
    if platform.machine() != "x86_64" or platform.system() != "Linux":
        return "faults are injected on Linux and x86-64 only"
    try:
        run = supervised(lambda: os.mkdir("/no such place"), lambda request: errno.EDQUOT, folder="/")
    except OSError as error:
        return f"this system does not let a process be supervised by seccomp: {error}"
    return None if run.calls == ["mkdir"] else "this system does not tell a supervisor of calls (Linux 5.9 does)"


@dataclass(frozen=True, kw_only=True)
class Request:
    """A call that waits for an answer.

    Attributes:
        number: how many calls there were before, plus one; calls for files elsewhere do not count.
        name: of the call.
        path: of the file, as far as it is known.
        can_be_short: it may do less than it is asked.
        takes_space: a full disk can be the answer.
    """

    number: int
    name: str
    path: str
    can_be_short: bool
    takes_space: bool


@dataclass
class Run:
    """How a supervised run ended.

    Attributes:
        status: the exit code, or minus the signal.
        calls: names of the calls that counted.
        paths: their files.
        is_hung: it had to be ended.
    """

    status: int = 0
    calls: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    is_hung: bool = False


def supervised(
    work: Callable[[], object],
    decide: Callable[[Request], Answer],
    *,
    folder: str,
    timeout_s: float = 60.0,
) -> Run:
    """Run a function in a fork; ``decide`` answers its changing calls to files below ``folder``.

    The function gives the exit code. ``decide`` may take its time: the child stands still as long.
    """
    ours, theirs = socket.socketpair()
    child = os.fork()
    if child == 0:
        _run_child(ours, theirs, work)
    theirs.close()
    run = Run()
    try:
        with ours:
            _, fds, _, _ = socket.recv_fds(ours, 1, 1)
        if not fds:
            _, status = os.waitpid(child, 0)
            raise OSError(os.waitstatus_to_exitcode(status), "the filter was refused")
        try:
            _Supervisor(child, fds[0], folder, decide, run).serve(timeout_s)
        finally:
            os.close(fds[0])
    finally:
        run.status = _end(child)
    return run


def _run_child(ours: socket.socket, theirs: socket.socket, work: Callable[[], object]) -> None:
    code = 70
    try:
        ours.close()
        os.setsid()
        try:
            listener = _install(_notify_changes(), _NEW_LISTENER)
        except OSError as error:
            os._exit(error.errno or 1)
        socket.send_fds(theirs, [b"x"], [listener])
        theirs.close()
        os.close(listener)
        code = int(work() or 0)
    finally:
        os._exit(code)


def _end(child: int) -> int:
    """Wait for the child, and kill what else there is of its session."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    try:
        return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    except ChildProcessError:
        return 0


class _Supervisor:
    """Takes requests and answers them."""

    def __init__(self, child: int, listener: int, folder: str, decide: Callable[[Request], Answer], run: Run) -> None:
        self._child, self._listener, self._decide, self._run = child, listener, decide, run
        self._folder = os.path.realpath(folder)
        self._start = self._folder.rstrip("/") + "/"

    def serve(self, timeout_s: float) -> None:
        """Answer until the child has ended."""
        until_s = time.monotonic() + timeout_s
        process = os.pidfd_open(self._child)
        poller = select.poll()
        poller.register(process, select.POLLIN)
        poller.register(self._listener, select.POLLIN)
        try:
            while True:
                ready = dict(poller.poll(max(0.0, until_s - time.monotonic()) * 1000))
                if ready.get(self._listener, 0) & select.POLLIN:
                    self._serve_one()
                elif process in ready:
                    # Ended, but not yet waited for: its number cannot be another process's.
                    info = os.waitid(os.P_PIDFD, process, os.WEXITED | os.WNOWAIT)
                    assert info is not None
                    return
                elif not ready:
                    self._run.is_hung = True
                    return
        finally:
            os.close(process)

    def _serve_one(self) -> None:
        note = bytearray(_NOTE.size)
        try:
            fcntl.ioctl(self._listener, _RECEIVE, note)
        except OSError as error:
            if error.errno in (errno.ENOENT, errno.EINTR):
                return  # the child was killed meanwhile
            raise
        key, thread, _, number, _, _, *arguments = _NOTE.unpack(note)
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # the same
            self._answer(key, _HeldCall(thread, CHANGES[number], arguments))

    def _answer(self, key: int, call: _HeldCall) -> None:
        path = call.path()
        if not call.changes() or not (path == self._folder or path.startswith(self._start)):
            self._reply(key, flags=_CONTINUE)
            return
        self._run.calls.append(call.name)
        self._run.paths.append(path[len(self._start) :])
        facts = CALLS[call.name]
        request = Request(
            number=len(self._run.calls),
            name=call.name,
            path=path[len(self._start) :],
            can_be_short=facts.size is not None and call.size() > 1,
            takes_space=facts.takes_space,
        )
        answer = self._decide(request)
        if answer == "torn":
            call.do_half()
        if answer in ("torn", "kill"):
            os.killpg(self._child, signal.SIGKILL)
        elif answer == "short":
            self._reply(key, value=call.do_half())
        elif isinstance(answer, int):
            self._reply(key, error=-answer)
        elif call.name in SYNCS:
            self._reply(key)  # done; waiting for the disk would only take time
        else:
            self._reply(key, flags=_CONTINUE)

    def _reply(self, key: int, *, value: int = 0, error: int = 0, flags: int = 0) -> None:
        with contextlib.suppress(FileNotFoundError):  # the child was killed meanwhile
            fcntl.ioctl(self._listener, _SEND, bytearray(_REPLY.pack(key, value, error, flags)))


class _HeldCall:
    """A call that a thread of the child waits in: what it is about."""

    def __init__(self, thread: int, name: str, arguments: list[int]) -> None:
        self.name = name
        self._thread, self._arguments = thread, arguments
        self._facts = CALLS[name]

    def changes(self) -> bool:
        """It is none of those that only open."""
        if self.name != "openat2":
            return True
        return bool(struct.unpack("<Q", self._memory(self._arguments[2], 8))[0] & O_CHANGES)

    def path(self) -> str:
        """Of the file that the call changes, with its folder resolved."""
        facts = self._facts
        if facts.fd is not None:
            return self._path_of(self._arguments[facts.fd])
        assert facts.path is not None
        start = _AT_CWD if facts.folder is None else self._arguments[facts.folder] & 0xFFFFFFFF
        base = f"/proc/{self._thread}/cwd" if start == _AT_CWD else f"/proc/{self._thread}/fd/{start}"
        if self._arguments[facts.path] == 0:  # the descriptor itself, as of utimensat
            return self._path_of(start)
        name = os.fsdecode(self._text(self._arguments[facts.path]))
        whole = os.path.join(os.readlink(base) if not name.startswith("/") else "/", name)
        return os.path.join(os.path.realpath(os.path.dirname(whole)), os.path.basename(whole)).rstrip("/")

    def _path_of(self, fd: int) -> str:
        return os.readlink(f"/proc/{self._thread}/fd/{fd & 0xFFFFFFFF}")

    def _memory(self, address: int, size: int) -> bytes:
        memory = os.open(f"/proc/{self._thread}/mem", os.O_RDONLY)
        try:
            return os.pread(memory, size, address)
        finally:
            os.close(memory)

    def _text(self, address: int) -> bytes:
        text = b""
        while b"\0" not in text:  # page by page: the next one may not be there
            text += self._memory(address + len(text), 4096 - (address + len(text)) % 4096)
        return text[: text.index(b"\0")]

    def size(self) -> int:
        """How many bytes are asked for."""
        if self.name in ("writev", "pwritev", "pwritev2"):
            return sum(size for _, size in self._pieces())
        assert self._facts.size is not None
        return self._arguments[self._facts.size]

    def _pieces(self) -> list[tuple[int, int]]:
        table = self._memory(self._arguments[1], 16 * self._arguments[2])
        return list(struct.iter_unpack("<QQ", table))

    def do_half(self) -> int:
        """Do what the child asks, but only half of it; gives the number of bytes."""
        if not self._facts.size or self.size() < 2:
            return 0
        half = self.size() // 2
        target = self._borrow(self._arguments[self._facts.fd or 0])
        try:
            if self.name in ("copy_file_range", "sendfile"):
                return self._copy(target, half)
            data = self._data()[:half]
            is_placed = self.name.startswith("p")
            return os.pwrite(target, data, self._arguments[3]) if is_placed else os.write(target, data)
        finally:
            os.close(target)

    def _data(self) -> bytes:
        if self.name in ("write", "pwrite64"):
            return self._memory(self._arguments[1], self._arguments[2])
        return b"".join(self._memory(address, size) for address, size in self._pieces())

    def _copy(self, target: int, count: int) -> int:
        is_range = self.name == "copy_file_range"
        source = self._borrow(self._arguments[0 if is_range else 1])
        places = (self._arguments[1], self._arguments[3]) if is_range else (self._arguments[2],)
        offsets = [struct.unpack("<q", self._memory(place, 8))[0] if place else None for place in places]
        try:
            if is_range:
                done = os.copy_file_range(source, target, count, *offsets)
            else:
                done = os.sendfile(target, source, offsets[0], count)
        finally:
            os.close(source)
        memory = os.open(f"/proc/{self._thread}/mem", os.O_RDWR)
        try:
            for place, offset in zip(places, offsets, strict=True):
                if place and offset is not None:
                    os.pwrite(memory, struct.pack("<q", offset + done), place)
        finally:
            os.close(memory)
        return done

    def _borrow(self, fd: int) -> int:
        """The child's open file, as a descriptor of ours."""
        with open(f"/proc/{self._thread}/status") as status:
            group = next(int(line.split()[1]) for line in status if line.startswith("Tgid:"))
        process = os.pidfd_open(group)
        try:
            own: int = _libc.syscall(_PIDFD_GETFD, process, fd & 0xFFFFFFFF, 0)
        finally:
            os.close(process)
        if own < 0:
            raise OSError(ctypes.get_errno(), "pidfd_getfd")
        return own
