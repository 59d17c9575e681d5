from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from headrace.errors import RemoteError
from headrace.storage import JoinedAnnouncement, join_announcements

if TYPE_CHECKING:
    from collections.abc import Iterator


class Part:
    def __init__(self, size_bytes: int, error: Exception | None = None) -> None:
        self.size_bytes, self.error, self.waited, self.closed = size_bytes, error, 0, 0
        self.is_cached, self.times = False, list[tuple[float, float]]()

    def distrust(self) -> None: ...

    def needed_again(self, use: float, next_use: float) -> None:
        self.times.append((use, next_use))

    def wait(self) -> None:
        self.waited += 1
        if self.error is not None:
            raise self.error

    def close(self, *, used_up: bool = False) -> None:
        self.closed += 1


def test_joined() -> None:
    parts = [Part(3), Part(4)]
    joined = join_announcements([parts[0], None, parts[1]])
    assert isinstance(joined, JoinedAnnouncement)
    assert joined.size_bytes == 7
    joined.wait()
    joined.close()
    assert [(part.waited, part.closed) for part in parts] == [(1, 1), (1, 1)]


def test_one_alone_is_itself() -> None:
    part = Part(3)
    assert join_announcements([None, part]) is part
    assert join_announcements([]) is None


def test_what_went_wrong_comes_out() -> None:
    joined = JoinedAnnouncement([Part(1), Part(2, RemoteError("s3://x/y", problem="it is gone"))])
    with pytest.raises(RemoteError, match="gone"):
        joined.wait()


def test_if_one_cannot_be_made_the_others_are_let_go() -> None:
    part = Part(1)

    def parts() -> Iterator[Part]:
        yield part
        raise RemoteError("s3://x/y", problem="it is gone")

    with pytest.raises(RemoteError):
        join_announcements(parts())
    assert part.closed == 1


def test_all_of_them_are_told_when_they_are_needed_again() -> None:
    parts = [Part(3), Part(4)]
    joined = join_announcements(parts)
    assert joined is not None
    assert not joined.is_cached
    parts[1].is_cached = True
    assert joined.is_cached
    joined.needed_again(1.0, 2.0)
    assert [part.times for part in parts] == [[(1.0, 2.0)]] * 2
