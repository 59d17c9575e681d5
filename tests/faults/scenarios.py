"""Every verb that writes, on every format, with data so small that a run takes milliseconds."""

from __future__ import annotations

import os
import shutil
import signal
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tests.faults.supervisor import supervised
from tests.helpers import image_file, picture

import headrace as hr
from headrace.cli.main import main
from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.faults.supervisor import Request

__all__ = [
    "READING",
    "WITHOUT",
    "Scenario",
    "all_scenarios",
    "fill_large",
    "fill_pantry",
    "fill_unfinished",
    "large_scenarios",
]

READING = (
    *(
        "info",
        "ls",
        "cat",
        "verify",
        "doctor",
        "tree",
        "find",
        "du",
        "browse",
        "view",
        "mount",
        "completion",
        "help",
        "version",
    ),
)
"""Verbs that write nothing; ``test_reading_verbs`` holds them to it."""

WITHOUT = {
    "demo": "it writes what it made up itself, with create, which is tried",
    "bench": "it writes what it made up itself; tests/unit/bench interrupts it",
    "cache": "a cache may lose blocks at any time; tests/unit/storage/test_block_cache.py kills its processes",
}
"""Verbs that write and are not tried, with the reason."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """One command.

    Attributes:
        words: the command; the verb is the first.
        base: what is in the folder at first: names in the pantry.
        targets: what the command changes.
        by_file: files of a target are old or new each on its own, as with cp; otherwise all are old or all new.
        notes: files that an interrupted command leaves on purpose, for the next run of it.
        again: the command to repeat it when it had its effect already and would refuse to do it twice.
    """

    words: tuple[str, ...]
    base: tuple[str, ...]
    targets: tuple[str, ...]
    by_file: bool = False
    notes: tuple[str, ...] = ()
    again: tuple[str, ...] | None = None

    @property
    def name(self) -> str:
        """The command as one would type it."""
        return " ".join(f"'{word}'" if " " in word else word for word in self.words if word not in ("-q", "-j1"))

    @property
    def verb(self) -> str:
        """Of the command, with the options that make it another one."""
        return self.words[0]

    @property
    def kind(self) -> str:
        """The format of what the command changes."""
        return self.targets[0].partition(".")[2] or "folder"

    def lay_out(self, pantry: str, folder: str) -> None:
        """Make the folder as it is before the command."""
        for one in os.listdir(pantry):
            if not any(one == name or one.startswith((f"{name}-", f"{name}.annex", f".{name}.")) for name in self.base):
                continue
            whole = os.path.join(pantry, one)
            if os.path.isdir(whole):
                shutil.copytree(whole, os.path.join(folder, one), symlinks=True)
            else:
                shutil.copy2(whole, folder)


def _text(word: str, size: int) -> bytes:
    return (f"{word} ".encode() * (size // len(word) + 1))[:size]


def _write_tree(folder: Path, files: dict[str, bytes], moment: int) -> None:
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        os.utime(path, (moment, moment))
    for root, _, _ in os.walk(folder):
        os.utime(root, (moment, moment))


def fill_pantry(pantry: Path) -> None:
    """Make all files that scenarios begin with."""
    jpegs = [image_file(picture(i, 16 + 8 * i, 24), "JPEG", quality=80) for i in range(4)]
    pictures = {"cat/1.jpg": jpegs[0], "cat/2.jpg": jpegs[1], "dog/3.jpg": jpegs[2]}
    _write_tree(pantry / "pics", pictures, 1_600_000_000)
    files = {"a/1.txt": _text("one", 700), "a/2.bin": _text("two", 5000), "a/b/3.jpg": jpegs[3], "empty": b""}
    _write_tree(pantry / "in", files, 1_600_000_000)
    (pantry / "in" / "hollow").mkdir()
    newer = {"a/1.txt": _text("uno", 900), "a/b/3.jpg": jpegs[0], "n/4.txt": _text("four", 1500)}
    _write_tree(pantry / "new", newer, 1_700_000_000)
    _write_tree(pantry / "more", {"m/6.txt": _text("six", 2500), "m/7.txt": b"7"}, 1_700_000_000)
    older = {"a/1.txt": _text("aleph", 300), "a/2.bin": _text("beth", 6000), "z/9.txt": _text("nine", 40)}
    _write_tree(pantry / "old", older, 1_500_000_000)
    _write_tree(pantry / "oldpics", {"cat/1.jpg": jpegs[3], "emu/8.jpg": jpegs[1]}, 1_500_000_000)
    for name, source, photos in (("x", "in", "pics"), ("old", "old", "oldpics")):
        hr.pack(pantry / f"{name}.beton", pantry / photos, workers=1, progress=False)
        hr.pack(pantry / f"{name}.ffr", pantry / source, workers=1, progress=False)
        hr.convert(pantry / source, pantry / f"{name}.tar", progress=False)
        hr.convert(pantry / source, pantry / f"{name}.tar.gz", progress=False)
        hr.convert(pantry / source, pantry / f"{name}.zip", progress=False)
        hr.convert(pantry / photos, pantry / f"{name}.pics.zip", progress=False)
        hr.convert(pantry / source, pantry / f"{name}.barecat", shard_size=6500, progress=False)
    hr.pack(pantry / "bare.beton", pantry / "pics", workers=1, progress=False, annex=False)
    shard = {"1.jpg": jpegs[0], "1.cls": b"0", "1.json": b"{}", "2.jpg": jpegs[1], "2.cls": b"1", "2.json": b"[]"}
    _write_tree(pantry / "shard", shard, 1_600_000_000)
    hr.convert(pantry / "shard", pantry / "shard.tar.gz", progress=False)
    _write_tree(pantry / "spoilt", pictures | {"cat/cut.jpg": jpegs[3][:200], "dog/none.png": b""}, 1_600_000_000)
    (pantry / "table.csv").write_bytes(b"")
    hr.convert(pantry / "pics", pantry / "pics.barecat", progress=False)
    for name in ("x", "old"):
        for kind, field in _OTHERS.items():
            hr.convert(pantry / f"{name}.beton", pantry / f"{name}.{kind}", field=field, workers=1, progress=False)
    _write_gaps(str(pantry / "gaps.barecat"))


def _write_gaps(path: str) -> None:
    """An archive of several shards in which files are missing at the front."""
    with Archive(path, "x", shard_size=9000) as archive:
        for i in range(24):
            archive[f"d{i % 3}/{i:02}"] = _text(f"file {i}", 300 + 97 * i)
    with Archive(path, "r+") as archive:
        for i in range(0, 14, 2):
            del archive[f"d{i % 3}/{i:02}"]


def fill_unfinished(pantry: Path) -> None:
    """Make archives whose writers were killed: in a transaction that moves files, and in a hand-over."""
    _write_gaps(str(pantry / "moved.barecat"))
    _kill(pantry, ("defrag", "moved.barecat", "-q"), lambda request: request.path == "moved.barecat")
    _write_gaps(str(pantry / "handed.barecat"))
    words = ("create", "handed.barecat", "in", "--force", "-q")
    _kill(pantry, words, lambda request: request.name.startswith("rename") and request.path == "handed.barecat")


def _kill(folder: Path, words: tuple[str, ...], when: Callable[[Request], bool]) -> None:
    """Run a command, and kill it at the first call for which ``when`` is true."""

    def work() -> int:
        os.chdir(folder)
        return main(list(words))

    run = supervised(work, lambda request: "kill" if when(request) else None, folder=str(folder))
    if run.status != -signal.SIGKILL:
        raise RuntimeError(f"{words} ended with {run.status} before it could be killed; its calls: {run.calls}")


def fill_large(pantry: Path) -> None:
    """Make the files of ``large_scenarios``: an archive whose index has many pages, and what goes into it."""
    path = str(pantry / "large.barecat")
    with Archive(path, "x", shard_size=100_000) as archive:
        for i in range(400):
            archive[f"d{i % 7}/{i:04}"] = _text(f"file {i}", 32 * (i % 50 + 1))
    with Archive(path, "r+") as archive:
        for i in range(0, 120, 2):
            del archive[f"d{i % 7}/{i:04}"]
    changed = {f"d1/{i:04}": _text(f"changed {i}", i % 3 * 700 + 5) for i in range(1, 400, 7)}
    added = {f"n/{i:04}": _text(f"added {i}", 32 * (i % 50 + 1)) for i in range(1, 400, 5)}
    _write_tree(pantry / "lots", changed | added, 1_700_000_000)


def large_scenarios() -> list[Scenario]:
    """Changes of an archive that are many transactions' worth: for full disks."""
    base = ("large.barecat", "lots")
    commands = (
        ("add", "large.barecat", "n", "-C", "lots", "-q"),
        ("add", "large.barecat", "d1", "n", "-C", "lots", "--replace", "-q"),
        ("rm", "-r", "large.barecat", "d1", "d2"),
        ("mv", "large.barecat", "d1", "moved"),
        ("defrag", "large.barecat", "-q"),
        ("defrag", "large.barecat", "--smart", "-q"),
        ("defrag", "large.barecat", "--quick", "-q"),
        ("reshard", "large.barecat", "-s", "60000", "-q"),
        ("sync", "lots/", "large.barecat", "-q"),
        ("sync", "lots/", "large.barecat", "--delete", "-q"),
        ("merge", "lots", "-o", "large.barecat", "-a", "--prefix", "m", "-q"),
    )
    by_file = ("add", "sync", "merge")
    return [Scenario(words=words, base=base, targets=base[:1], by_file=words[0] in by_file) for words in commands]


def _again(words: tuple[str, ...], option: str = "--force") -> tuple[str, ...]:
    return (*words, option)


def all_scenarios() -> list[Scenario]:
    """All of them, in the order of the command's own list of verbs."""
    return [
        *_creates(),
        *_converts(),
        *_other_converts(),
        *_extracts(),
        *_indexes(),
        *_edits(),
        *_syncs(),
        *_merges(),
        *_shells(),
    ]


def _creates() -> Iterator[Scenario]:
    for out, source in (("beton", "pics"), ("ffr", "in"), ("barecat", "in")):
        words = ("create", f"t.{out}", source, "-q", "-j1")
        yield Scenario(words=words, base=(source,), targets=(f"t.{out}",), again=_again(words))
        words = ("create", f"old.{out}", source, "--force", "-q", "-j1")
        yield Scenario(words=words, base=(source, f"old.{out}"), targets=(f"old.{out}",))
    words = ("create", "old.beton", "pics", "--force", "--mode", "raw", "-q", "-j", "2")
    yield Scenario(words=words, base=("pics", "old.beton"), targets=("old.beton",))
    words = ("create", "t.beton", "spoilt", "--skip-broken", "-q", "-j1")
    yield Scenario(words=words, base=("spoilt",), targets=("t.beton",), again=_again(words))
    words = ("create", "t.barecat", "in", "-s", "6500", "-q", "-j", "2")
    yield Scenario(words=words, base=("in",), targets=("t.barecat",), again=_again(words))


_OTHERS: dict[str, str | None] = {
    **dict.fromkeys(("tfrecord", "tfrecord.gz", "rec", "npz", "parquet", "arrow", "h5", "msgpack", "jsonl", "csv")),
    "npy": "label",
    "lmdb": "image",
}
"""Formats of samples that stand in files of their own, and the field that goes into those that hold one."""

_SAMPLES = ("beton", "ffr", "barecat")
_FILES = ("tar", "tar.gz", "zip", "barecat", "folder")


def _converts() -> Iterator[Scenario]:
    pairs = [(a, b) for a in _FILES for b in _FILES if a != b or a in ("barecat", "folder")]
    pairs += [(a, b) for a in _SAMPLES for b in _SAMPLES if (a, b) != ("barecat", "barecat")]
    pairs += [("pics.zip", "beton"), ("pics", "beton"), ("tar", "ffr"), ("tar.gz", "ffr"), ("folder", "ffr")]
    pairs += [("beton", "zip"), ("ffr", "tar"), ("ffr", "folder")]
    for source_kind, kind in pairs:
        source = {"folder": "in", "pics": "pics"}.get(source_kind, f"x.{source_kind}")
        if (source_kind, kind) == ("barecat", "beton"):
            source = "pics.barecat"
        if (source_kind, kind) == ("ffr", "beton"):
            extra: tuple[str, ...] = ("--decode", "bytes")
        elif source_kind == "beton" and kind in ("ffr", "zip"):
            extra = ("--field", "image")
        else:
            extra = ()
        if {source_kind, kind} & {"beton", "ffr"}:
            extra = (*extra, "-j1")
        new, old = ("t", "old") if kind == "folder" else (f"t.{kind}", f"old.{kind}")
        words = ("convert", source, new, *extra, "-q")
        in_folder = kind == "folder"
        yield Scenario(words=words, base=(source,), targets=(new,), by_file=in_folder, again=_again(words))
        words = ("convert", source, old, *extra, "--force", "-q")
        yield Scenario(words=words, base=(source, old), targets=(old,), by_file=in_folder)
    for source in ("shard", "shard.tar.gz"):
        words = ("convert", source, "t.beton", "-q", "-j1")
        yield Scenario(words=words, base=(source,), targets=("t.beton",), again=_again(words))
    for kind in ("npz", "tar"):
        words = ("convert", "x.beton", f"t.{kind}", "--field", "image", "--verify", "-q", "-j1")
        yield Scenario(words=words, base=("x.beton",), targets=(f"t.{kind}",), again=_again(words))
    words = ("convert", "x.beton", "old.ffr", "--field", "image", "--verify", "--force", "-q", "-j1")
    yield Scenario(words=words, base=("x.beton", "old.ffr"), targets=("old.ffr",))
    words = ("convert", "x.beton", "t-%d.npz", "--shard-samples", "2", "--resume", "-q", "-j1")
    files = tuple(f"t-{number}.npz" for number in range(2))
    notes = (".t-%d.npz.convert.json", ".t-%d.npz.convert.lock")
    yield Scenario(words=words, base=("x.beton",), targets=files, by_file=True, notes=notes, again=_again(words))


def _other_converts() -> Iterator[Scenario]:
    """To formats whose annex lies beside, or that libraries write; into sets of them, too."""
    for kind, field in _OTHERS.items():
        extra = () if field is None else ("--field", field)
        for name, base, options in (("t", (), ()), ("old", (f"old.{kind}",), ("--force",))):
            words = ("convert", "x.beton", f"{name}.{kind}", *extra, *options, "-q", "-j1")
            targets = (f"{name}.{kind}", f"{name}.{kind}.annex")
            again = None if options else _again(words)
            yield Scenario(words=words, base=("x.beton", *base), targets=targets, again=again)
    for kind in ("beton", "tfrecord", "jsonl"):
        words = ("convert", "x.beton", f"t-%d.{kind}", "-s", "1000", "-q", "-j1")
        targets = tuple(f"t-{i}.{kind}{ending}" for i in range(3) for ending in ("", ".annex"))
        yield Scenario(words=words, base=("x.beton",), targets=targets, again=_again(words))


def _extracts() -> Iterator[Scenario]:
    for kind in ("beton", "ffr", "barecat"):
        words = ("extract", f"x.{kind}", "-C", "t", "-q")
        yield Scenario(words=words, base=(f"x.{kind}",), targets=("t",), by_file=True, again=_again(words))
        folder = "oldpics" if kind == "beton" else "old"
        words = ("extract", f"x.{kind}", "-C", folder, "--force", "-q")
        yield Scenario(words=words, base=(f"x.{kind}", folder), targets=(folder,), by_file=True)


def _indexes() -> Iterator[Scenario]:
    yield Scenario(
        words=("index", "bare.beton", "-q"), base=("bare.beton",), targets=("bare.beton", "bare.beton.annex")
    )
    yield Scenario(words=("index", "bare.beton", "--embed", "-q"), base=("bare.beton",), targets=("bare.beton",))
    yield Scenario(words=("index", "x.beton", "--embed", "--fresh", "-q"), base=("x.beton",), targets=("x.beton",))
    for kind in ("ffr", "barecat"):
        words = ("index", f"x.{kind}", "-q")
        yield Scenario(words=words, base=(f"x.{kind}",), targets=(f"x.{kind}", f"x.{kind}.annex"))
    words = ("index", "x.barecat", "--export", "table.csv", "-q")
    yield Scenario(words=words, base=("x.barecat", "table.csv"), targets=("table.csv",))


def _edits() -> Iterator[Scenario]:
    words = ("add", "gaps.barecat", "a", "n", "-C", "new", "-q", "-j1")
    base = ("gaps.barecat", "new")
    yield Scenario(words=words, base=base, targets=base[:1], by_file=True, again=_again(words, "--replace"))
    words = ("add", "x.barecat", "a", "n", "-C", "new", "--replace", "-q", "-j", "2")
    yield Scenario(words=words, base=("x.barecat", "new"), targets=("x.barecat",), by_file=True)
    base = ("gaps.barecat",)
    yield Scenario(words=("rm", "-r", "gaps.barecat", "d0", "d1/19"), base=base, targets=base)
    yield Scenario(words=("mv", "gaps.barecat", "d1", "moved/here"), base=base, targets=base)
    for option in ((), ("--smart",), ("--quick",)):
        yield Scenario(words=("defrag", "gaps.barecat", *option, "-q"), base=base, targets=base)
    yield Scenario(words=("reshard", "gaps.barecat", "-s", "5000", "-q"), base=base, targets=base)
    yield Scenario(words=("reshard", "gaps.barecat", "-s", "1M", "-q"), base=base, targets=base)
    for name in ("moved.barecat", "handed.barecat"):
        yield Scenario(words=("repair", name), base=(name,), targets=(name,))


def _syncs() -> Iterator[Scenario]:
    for option in ((), ("--delete",)):
        for source, target in (
            ("new/", "old"),
            ("x.barecat", "old"),
            ("new/", "x.barecat"),
            ("x.barecat", "gaps.barecat"),
            ("in/", "t"),
            ("in/", "t.barecat"),
        ):
            slash = "" if source.endswith("/") else "::/"
            words = ("sync", source + slash, target, *option, "-q")
            base = (source.rstrip("/"), *(() if target.startswith("t") else (target,)))
            yield Scenario(words=words, base=base, targets=(target,), by_file=True)


def _merges() -> Iterator[Scenario]:
    words = ("merge", "x.barecat", "more", "-o", "t.barecat", "-q")
    yield Scenario(words=words, base=("x.barecat", "more"), targets=("t.barecat",), again=_again(words))
    words = ("merge", "x.tar", "more", "-o", "gaps.barecat", "-a", "-q")
    yield Scenario(
        words=words,
        base=("x.tar", "more", "gaps.barecat"),
        targets=("gaps.barecat",),
        by_file=True,
        again=("sync", "more/", "gaps.barecat", "-q"),  # which finds everything there
    )
    words = ("merge", "x.barecat", "pics.barecat", "-o", "old.barecat", "--force", "--symlink", "-q")
    yield Scenario(words=words, base=("x.barecat", "pics.barecat", "old.barecat"), targets=("old.barecat",))
    words = ("subset", "gaps.barecat", "-o", "t.barecat", "-i", "d1/**", "-x", "**", "-q")
    yield Scenario(words=words, base=("gaps.barecat",), targets=("t.barecat",), again=_again(words))
    words = ("subset", "gaps.barecat", "-o", "old.barecat", "-x", "d1/**", "--force", "-q")
    yield Scenario(words=words, base=("gaps.barecat", "old.barecat"), targets=("old.barecat",))


def _shells() -> Iterator[Scenario]:
    base = ("gaps.barecat", "more")
    for command in ("mkdir k", "put more d1", "mv d1 k/l", "rm -r d2"):
        yield Scenario(words=("shell", "gaps.barecat", "-w", "-c", command), base=base, targets=base[:1])
    words = ("shell", "x.barecat", "-c", "get --force a old")
    yield Scenario(words=words, base=("x.barecat", "old"), targets=("old",), by_file=True)
    words = ("shell", "x.barecat", "-c", "get a t")
    again = ("shell", "x.barecat", "-c", "get --force a t")
    yield Scenario(words=words, base=("x.barecat",), targets=("t",), by_file=True, again=again)
