"""The index as a text table, and back."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

import pytest

from headrace.errors import FormatError
from headrace.formats.barecat import Archive, Metadata
from headrace.transfer.index_table import export_index, import_index

if TYPE_CHECKING:
    from pathlib import Path


def exported(path: Path) -> str:
    file = io.StringIO()
    with Archive(path) as archive:
        assert export_index(archive, file) == archive.num_files + archive.num_dirs
    return file.getvalue()


def test_there_and_back(full: Path) -> None:
    with Archive(full, "a") as archive:
        archive.add("with, comma", b"1", metadata=Metadata(0o600, 1, 2, 3))
        contents = dict(archive)
    table = exported(full)
    with pytest.raises(FileExistsError, match="--force"):
        import_index(full, io.StringIO(table))
    full.unlink()
    import_index(full, io.StringIO(table))
    assert dict(Archive(full)) == contents
    rows = [line for line in table.splitlines() if line.startswith("file,")]
    assert [line for line in exported(full).splitlines() if line.startswith("file,")] == rows
    assert import_index(full, io.StringIO(table), force=True) == len(table.splitlines()) - 1


@pytest.mark.parametrize("line", ["file,a,x,0,1,,,,,", "file,a,,0,1,,,,,", "link,a,0,0,1,,,,,", "file,a"])
def test_lines_that_are_no_rows(full: Path, line: str) -> None:
    before = full.read_bytes()
    head = exported(full).splitlines()[0]
    with pytest.raises(FormatError, match="line 2: this is not a line of an index"):
        import_index(full, io.StringIO(f"{head}\n{line}\n"), force=True)
    with pytest.raises(FormatError, match="the columns must be"):
        import_index(full, io.StringIO("a,b\n1,2\n"), force=True)
    assert full.read_bytes() == before
    assert not list(full.parent.glob("*.import*"))
