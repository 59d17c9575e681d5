"""Hostile HDF5, Arrow, Parquet, LMDB files and manifests, as in ``hostile_formats``."""

from __future__ import annotations

import json
import os
import struct
from typing import TYPE_CHECKING

import numpy as np
from tests.attacks.hostile_formats import ESCAPES, golden

if TYPE_CHECKING:
    from pathlib import Path

    from tests.attacks.hostile_formats import Maker

__all__ = ["HOSTILE_TABLES"]

HOSTILE_TABLES: dict[str, Maker] = {}


def hostile(make: Maker) -> Maker:
    HOSTILE_TABLES[make.__name__] = make
    return make


# -- HDF5, Arrow, LMDB ------------------------------------------------------------------------------------------------


def _h5(folder: Path) -> tuple[Path, object]:
    import h5py

    return folder / "x.h5", h5py


@hostile
def hdf5_that_leads_elsewhere(folder: Path) -> Path:
    path, h5py = _h5(folder)
    with h5py.File(folder.parent / "home" / "secret.h5", "w") as file:  # type: ignore[attr-defined]
        file["x"] = [5, 6]
    with h5py.File(path, "w") as file:  # type: ignore[attr-defined]
        file["n"] = [1, 2]
        file["out"] = h5py.ExternalLink(str(folder.parent / "home" / "secret.h5"), "/x")  # type: ignore[attr-defined]
        file["round"] = h5py.SoftLink("/round")  # type: ignore[attr-defined]
        external = [(str(folder.parent / "home" / "settings"), 0, 16)]
        file.create_dataset("raw", (2,), "i8", external=external)
    return path


@hostile
def hdf5_of_large_chunks_of_nothing(folder: Path) -> Path:
    path, h5py = _h5(folder)
    with h5py.File(path, "w") as file:  # type: ignore[attr-defined]
        file.create_dataset("a", (1 << 40, 1024), "f8", chunks=(1, 1024), compression="gzip")
        file.create_dataset("b", (1 << 40,), "f8", chunks=(1 << 20,), compression="gzip")
    return path


@hostile
def hdf5_bomb(folder: Path) -> Path:
    path, h5py = _h5(folder)
    with h5py.File(path, "w") as file:  # type: ignore[attr-defined]
        file.create_dataset("a", (4, 6 << 20), "u1", chunks=(4, 6 << 20), compression="gzip", fillvalue=1)
        file["a"][0, 0] = 0
    return path


@hostile
def hdf5_of_names(folder: Path) -> Path:
    path, h5py = _h5(folder)
    with h5py.File(path, "w") as file:  # type: ignore[attr-defined]
        for name in ("a/../../b", "..", f"c{ESCAPES}", " "):
            file[name] = np.arange(2)
    return path


def _arrow() -> tuple[object, object]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    return pa, pq


@hostile
def parquet_of_repeated_values(folder: Path) -> Path:
    """The same long value many times: a dictionary makes some kilobytes of it."""
    pa, pq = _arrow()
    indices = pa.array(np.zeros(1000, np.int32))  # type: ignore[attr-defined]
    values = pa.DictionaryArray.from_arrays(indices, pa.array([b"x" * 100_000]))  # type: ignore[attr-defined]
    pq.write_table(pa.table({"a": values}), folder / "x.parquet")  # type: ignore[attr-defined]
    return folder / "x.parquet"


@hostile
def arrow_of_names(folder: Path) -> Path:
    pa, _ = _arrow()
    table = pa.table({f"a{ESCAPES}": [1, 2], "../b": [1, 2]})  # type: ignore[attr-defined]
    with pa.OSFile(str(folder / "x.arrow"), "wb") as out, pa.ipc.new_file(out, table.schema) as file:  # type: ignore[attr-defined]
        file.write_table(table)
    return folder / "x.arrow"


@hostile
def arrow_of_deep_types(folder: Path) -> Path:
    pa, _ = _arrow()
    kind, value = pa.int8(), 1  # type: ignore[attr-defined]
    for _ in range(60):
        kind, value = pa.list_(kind), [value]  # type: ignore[attr-defined, assignment]
    table = pa.table({"a": pa.array([value, value], kind)})  # type: ignore[attr-defined]
    with pa.OSFile(str(folder / "x.arrow"), "wb") as out, pa.ipc.new_file(out, table.schema) as file:  # type: ignore[attr-defined]
        file.write_table(table)
    return folder / "x.arrow"


@hostile
def hugging_face_folder_that_leads_out(folder: Path) -> Path:
    path = golden(folder, "hf_saved")
    state = json.loads((path / "state.json").read_text())
    state["_data_files"] = [{"filename": "../../home/settings"}, {"filename": "/etc/passwd"}]
    (path / "state.json").write_text(json.dumps(state))
    return path


@hostile
def lmdb_of_another_page_size(folder: Path) -> Path:
    path = golden(folder, "table.lmdb")
    data = bytearray(path.read_bytes())
    for page in (0, 4096):
        data[page + 40 : page + 44] = struct.pack("<I", 1 << 31)
    path.write_bytes(data)
    return path


@hostile
def lmdb_whose_lock_is_a_pipe(folder: Path) -> Path:
    path = golden(folder, "table.lmdb")
    os.mkfifo(folder / "table.lmdb-lock")
    return path


# -- manifests --------------------------------------------------------------------------------------------------------


@hostile
def manifest_that_points_outside(folder: Path) -> Path:
    (folder / "in.txt").write_text("fine")
    (folder / "link.txt").symlink_to(folder.parent / "home" / "settings")
    os.mkfifo(folder / "pipe.txt")
    names = ["in.txt", "../home/settings", "/etc/passwd", "link.txt", "pipe.txt", "a\0b", "~/settings", "x" * 9000]
    (folder / "x.jsonl").write_text("".join(json.dumps({"file": name}) + "\n" for name in names))
    return folder / "x.jsonl"


@hostile
def manifest_of_mixed_types(folder: Path) -> Path:
    rows = [{"a": 1}, {"a": "x"}, {"a": None}, {"b": 1}, {"a": [1]}, {"a": {"b": 1e999}}, {"a": 10**400}]
    (folder / "x.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder / "x.jsonl"


@hostile
def jsonl_of_deep_lines(folder: Path) -> Path:
    (folder / "x.jsonl").write_text('{"a": 1}\n{"a": ' + "[" * 200_000 + "\n")
    return folder / "x.jsonl"


@hostile
def jsonl_of_one_endless_line(folder: Path) -> Path:
    with open(folder / "x.jsonl", "wb") as file:
        file.write(b'{"a": "')
        file.truncate(300 << 20)
    return folder / "x.jsonl"


@hostile
def csv_of_escapes(folder: Path) -> Path:
    (folder / "x.csv").write_text(f'"a{ESCAPES}",b\n"x{ESCAPES}",1\n', newline="")
    return folder / "x.csv"


@hostile
def csv_of_rows_that_come_apart(folder: Path) -> Path:
    (folder / "x.csv").write_text('a,b\n1,2\n3\n4,5,6\n"7,8\n')
    return folder / "x.csv"


@hostile
def csv_of_many_columns(folder: Path) -> Path:
    (folder / "x.csv").write_text(",".join(f"c{i}" for i in range(200_000)) + "\n" + ",".join(["1"] * 200_000) + "\n")
    return folder / "x.csv"
