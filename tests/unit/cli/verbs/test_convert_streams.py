"""``headrace convert`` from standard input and to standard output."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import pty
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headrace.errors import FormatError
from headrace.formats.barecat import Archive
from headrace.transfer.convert import convert

if TYPE_CHECKING:
    from collections.abc import Callable

    Said = Callable[..., str]

TARS = ["tar", "tar.gz", "tar.bz2", "tar.xz", "tar.zst"]


def piped(*args: str, data: bytes = b"", code: int = 0) -> tuple[bytes, str]:
    done = subprocess.run(
        [sys.executable, "-m", "headrace", "convert", *args], input=data, capture_output=True, timeout=60, check=False
    )
    assert done.returncode == code, done.stderr.decode()
    return done.stdout, done.stderr.decode()


def need(kind: str) -> None:
    if kind == "tar.zst":
        pytest.importorskip("zstandard")


@pytest.mark.parametrize("kind", TARS)
def test_there_and_back(photos: Path, kind: str) -> None:
    need(kind)
    data, notes = piped("photos.barecat", "-", "--to", kind)
    assert "4 files" in notes
    piped("-", "x.barecat", "--from", kind, data=data)
    assert dict(Archive("x.barecat").items()) == dict(Archive("photos.barecat").items())
    assert Archive("x.barecat").stat("void").is_dir()
    assert Archive("x.barecat").stat("cat/1.jpg").mode == 0o644
    if kind != "tar.zst":
        with tarfile.open(fileobj=io.BytesIO(data)) as tar:
            assert len(tar.getnames()) == 7


@pytest.mark.slow
def test_from_one_stream_to_the_other(photos: Path) -> None:
    data, _ = piped("photos", "-", "--to", "tar.gz")
    plain, _ = piped("-", "-", "--from", "tar.gz", "--to", "tar", data=data)
    assert plain[257:262] == b"ustar"
    stored, _ = piped("-", "-", "--from", "tar", "--to", "zip", "-q", data=plain)
    with zipfile.ZipFile(io.BytesIO(stored)) as archive:
        assert archive.testzip() is None
        assert archive.read("notes.txt") == b"hello\n"
    piped("-", "x.beton", "--from", "tar", data=plain)
    again, _ = piped("x.beton", "-", "--to", "tar")
    with tarfile.open(fileobj=io.BytesIO(again)) as tar:
        assert "cat/1.jpg" in tar.getnames()


def test_names_without_an_ending(photos: Path, said: Said) -> None:
    said("convert", "photos", "download", "--to", "tar.gz")
    said("convert", "download", "x.barecat", "--from", "tar.gz")
    assert len(Archive("x.barecat")) == 4


def test_what_does_not_go(photos: Path, said: Said) -> None:
    assert "--from tar.gz" in said("convert", "-", "x.barecat", code=2)
    assert "--to tar.gz" in said("convert", "photos", "-", code=2)
    assert "save it to a file first" in piped("-", "x.barecat", "--from", "zip", code=2)[1]
    assert "--json" in piped("photos", "-", "--to", "tar", "--json", code=2)[1]
    assert not list(photos.glob("*x.barecat*"))


def test_no_binary_on_a_terminal(photos: Path) -> None:
    leader, follower = pty.openpty()
    try:
        command = [sys.executable, "-m", "headrace", "convert"]
        done = subprocess.run(
            [*command, "photos.barecat", "-", "--to", "tar"], stdout=follower, stderr=subprocess.PIPE, check=False
        )
        assert (done.returncode, b"is a terminal" in done.stderr) == (2, True)
        done = subprocess.run(
            [*command, "-", "x.barecat", "--from", "tar"], stdin=follower, stderr=subprocess.PIPE, check=False
        )
        assert (done.returncode, b"is a terminal" in done.stderr) == (2, True)
    finally:
        os.close(leader)
        os.close(follower)


def test_what_is_not_a_file_is_not_replaced(photos: Path, said: Said) -> None:
    os.mkfifo("pipe")
    assert "is not a file" in said("convert", "photos.barecat", "pipe", "--to", "tar", "--force", code=2)
    assert (photos / "pipe").is_fifo()
    (photos / "y.tar").symlink_to("nowhere/y.tar")
    said("convert", "photos.barecat", "y.tar", "--force")
    assert (photos / "y.tar").is_file()


@pytest.mark.slow
@pytest.mark.parametrize("buffered", [True, False])
def test_a_full_disk(photos: Path, buffered: bool) -> None:
    if not Path("/dev/full").is_char_device():
        pytest.skip("no /dev/full here")
    environment = {**os.environ, "PYTHONUNBUFFERED": "" if buffered else "1"}
    converting = [f"convert photos.barecat - --to {kind}" for kind in ("tar", "tar.gz", "zip")]
    for line in (*converting, "ls photos.barecat", "--version"):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [sys.executable, "-m", "headrace", *line.split()],
                stdout=full,
                stderr=subprocess.PIPE,
                env=environment,
                check=False,
            )
        assert done.returncode == 2, line
        assert b"No space left on device" in done.stderr
        assert b"Traceback" not in done.stderr


@pytest.mark.parametrize("kind", [*TARS, "zip"])
def test_a_reader_that_goes_away(photos: Path, kind: str) -> None:
    need(kind)
    (photos / "photos" / "noise").write_bytes(os.urandom(3 << 20))
    with subprocess.Popen(
        [sys.executable, "-m", "headrace", "convert", "photos", "-", "--to", kind],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(100)
        process.stdout.close()
        assert process.stderr.read() == b""
        assert process.wait(60) == 0


@pytest.mark.parametrize("kind", TARS)
def test_a_stream_that_is_cut_short(photos: Path, kind: str) -> None:
    need(kind)
    data, _ = piped("photos.barecat", "-", "--to", kind)
    for length in (0, 700, len(data) // 2, len(data) - (10_240 if kind == "tar" else 1)):
        with pytest.raises(FormatError):
            convert(io.BytesIO(data[:length]), "x.barecat", source_kind=kind)
    assert not list(photos.glob("*x.barecat*"))


def test_a_stream_that_is_cut_between_two_members(photos: Path) -> None:
    data = make_tar(("a", b"one", tarfile.REGTYPE, ""), ("b", b"two", tarfile.REGTYPE, ""))
    with pytest.raises(FormatError, match="cut short on its way"):
        convert(io.BytesIO(data[:1024]), "x.barecat", source_kind="tar")


def test_a_source_that_fails_gives_no_whole_tar(photos: Path) -> None:
    with open("photos.barecat-shard-00000", "r+b") as shard:
        shard.seek(10)
        shard.write(b"\0\0\0\0\0\0")
    for kind in ("tar", "tar.gz", "zip"):
        data, notes = piped("photos.barecat", "-", "--to", kind, code=2)
        assert "checksum" in notes
        if kind == "zip":
            assert not zipfile.is_zipfile(io.BytesIO(data))
        else:
            with pytest.raises(FormatError):
                convert(io.BytesIO(data), "y.barecat", source_kind=kind)


def make_tar(*members: tuple[str, bytes, bytes, str]) -> bytes:
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name, data, kind, link in members:
            info = tarfile.TarInfo(name)
            info.size, info.type, info.linkname = len(data), kind, link
            tar.addfile(info, io.BytesIO(data))
    return out.getvalue()


def test_links_and_names_that_lead_out(photos: Path) -> None:
    data = make_tar(
        ("a", b"one", tarfile.REGTYPE, ""), ("hard", b"", tarfile.LNKTYPE, "a"), ("pipe", b"", tarfile.FIFOTYPE, "")
    )
    _, notes = piped("-", "x.barecat", "--from", "tar", data=data)
    assert "left out: hard: a link, and a stream is read only once" in notes
    assert "left out: pipe" in notes
    assert dict(Archive("x.barecat").items()) == {"a": b"one"}
    evil = make_tar(("../evil", b"", tarfile.REGTYPE, ""))
    assert "leads out" in piped("-", "y.barecat", "--from", "tar", data=evil, code=2)[1]


def test_bombs(photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    zeros = make_tar(("zeros", bytes(4 << 20), tarfile.REGTYPE, ""))
    packed = {"tar.gz": gzip.compress(zeros), "tar.bz2": bz2.compress(zeros), "tar.xz": lzma.compress(zeros)}
    monkeypatch.setattr("headrace.transfer.tar.FREE_BYTES", 1 << 20)
    assert convert(io.BytesIO(zeros), "a.barecat", source_kind="tar").size_bytes == 4 << 20
    mixed = gzip.compress(make_tar(("mixed", os.urandom(40_000) + bytes(4 << 20), tarfile.REGTYPE, "")))
    assert convert(io.BytesIO(mixed), "b.barecat", source_kind="tar.gz").files == 1  # much, and still likely
    for kind in packed:
        with pytest.raises(FormatError, match="--max-size"):
            convert(io.BytesIO(packed[kind]), "x.barecat", source_kind=kind)
        assert convert(io.BytesIO(packed[kind]), f"{kind}.barecat", source_kind=kind, max_bytes=5 << 20).files == 1
    with pytest.raises(FormatError, match="4000"):
        convert(io.BytesIO(zeros), "x.barecat", source_kind="tar", max_bytes=4000)
    assert not list(photos.glob("*x.barecat*"))


def test_holes_that_nobody_sent(photos: Path) -> None:
    info = tarfile.TarInfo("sparse")
    info.pax_headers = {"GNU.sparse.map": "0,0", "GNU.sparse.size": str(1 << 40), "GNU.sparse.numblocks": "1"}
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT) as tar:
        tar.addfile(info, io.BytesIO())
    with pytest.raises(FormatError, match="--max-size"):
        convert(io.BytesIO(out.getvalue()), "x.barecat", source_kind="tar")
