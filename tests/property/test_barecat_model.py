"""An archive does what a dictionary does, with any operations in any order, committed and reopened at any time."""

from __future__ import annotations

import tempfile
from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from headrace.errors import EntryExistsError, EntryIsDirectoryError, EntryIsFileError, EntryNotFoundError
from headrace.formats.barecat import Archive
from headrace.formats.barecat.edit.maintenance import defragment, reshard

PARTS = st.sampled_from(["a", "b", "c", "ü", "%", "[x]"])
NAMES = st.lists(PARTS, min_size=1, max_size=3).map("/".join)
DATA = st.integers(0, 400).map(lambda size: bytes(i * 7 % 251 for i in range(size)))


class ArchiveMachine(RuleBasedStateMachine):
    """The archive and the model side by side."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.path = Path(self.folder.name) / "x.barecat"
        self.archive = Archive(self.path, "x", shard_size=1000, sync=False)
        self.model: dict[str, bytes] = {}

    def is_dir(self, name: str) -> bool:
        return any(other.startswith(f"{name}/") for other in self.model)

    def lies_below_a_file(self, name: str) -> bool:
        return any(name.startswith(f"{other}/") for other in self.model)

    @rule(name=NAMES, data=DATA)
    def add(self, name: str, data: bytes) -> None:
        if name in self.model:
            with pytest.raises(EntryExistsError):
                self.archive[name] = data
        elif self.archive.is_dir(name):
            with pytest.raises(EntryIsDirectoryError):
                self.archive[name] = data
        elif self.lies_below_a_file(name):
            with pytest.raises(EntryIsFileError):
                self.archive[name] = data
        else:
            self.archive[name] = data
            self.model[name] = data

    @rule(name=NAMES, data=DATA)
    def update(self, name: str, data: bytes) -> None:
        if name in self.model:
            self.archive.update_file(name, data)
            self.model[name] = data
        else:
            with pytest.raises(EntryNotFoundError):
                self.archive.update_file(name, data)

    @rule(name=NAMES, data=DATA)
    def append(self, name: str, data: bytes) -> None:
        if name in self.model and len(self.model[name]) + len(data) <= 1000:
            with self.archive.open(name, "ab") as file:
                file.write(data)
            self.model[name] += data

    @rule(name=NAMES)
    def remove(self, name: str) -> None:
        if name in self.model:
            del self.archive[name]
            del self.model[name]

    @rule(old=NAMES, new=NAMES)
    def rename(self, old: str, new: str) -> None:
        if not self.archive.exists(old) or self.archive.exists(new) or new.startswith(f"{old}/"):
            return
        if self.lies_below_a_file(new):
            with pytest.raises(EntryIsFileError):
                self.archive.rename(old, new)
            return
        self.archive.rename(old, new)
        moved = {n: d for n, d in self.model.items() if n == old or n.startswith(f"{old}/")}
        for name, data in moved.items():
            del self.model[name]
            self.model[new + name[len(old) :]] = data

    @rule(name=NAMES)
    def remove_tree(self, name: str) -> None:
        if self.archive.is_dir(name):
            self.archive.rmtree(name)
            self.model = {n: d for n, d in self.model.items() if not n.startswith(f"{name}/")}

    @rule()
    def commit(self) -> None:
        self.archive.commit()

    @rule(method=st.sampled_from(["full", "smart", "quick"]))
    def defragment(self, method: str) -> None:
        defragment(self.archive, method)  # type: ignore[arg-type]

    @rule(size=st.sampled_from([1000, 1500]))
    def reshard(self, size: int) -> None:
        reshard(self.archive, size)

    @rule()
    def reopen(self) -> None:
        self.archive.close()
        assert Archive(self.path).verify().ok
        self.archive = Archive(self.path, "r+", sync=False)

    @invariant()
    def agree(self) -> None:
        assert len(self.archive) == len(self.model)
        assert {name: self.archive[name] for name in self.archive} == self.model
        assert self.archive.total_size == sum(map(len, self.model.values()))

    def teardown(self) -> None:
        self.archive.close()
        assert Archive(self.path).verify().ok
        self.folder.cleanup()


TestArchiveMachine = ArchiveMachine.TestCase
TestArchiveMachine.settings = settings(max_examples=40, stateful_step_count=40, deadline=None)
