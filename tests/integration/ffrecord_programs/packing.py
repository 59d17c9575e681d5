"""A folder of files in one file, found again by path."""

import sys
from pathlib import Path

import numpy as np
from ffrecord import PackedFolder, pack_folder

top = Path(sys.argv[1])
folder, packed = top / "data", top / "data.ffr"
(folder / "images" / "dogs").mkdir(parents=True)
(folder / "empty").mkdir()
for i in range(20):
    (folder / "images" / "dogs" / f"{i:03d}.bin").write_bytes(bytes(range(i)))
(folder / "labels.txt").write_text("dogs\n")
pack_folder(str(folder), str(packed), verbose=True)

data = PackedFolder(packed)
assert data.num_files() == 21
assert data.list() == ["empty", "images", "labels.txt"]
assert data.exists("images/dogs")
assert data.is_dir("images")
assert data.is_file("labels.txt")
assert not data.is_file("images/cats")
names = data.list("images", list_dir=False, recursive=True)
assert len(names) == 20
arrays = data.read([Path("images") / name for name in names])
for name, array in zip(names, arrays, strict=True):
    np.testing.assert_array_equal(array, np.fromfile(folder / "images" / name, np.uint8))
assert data.read_one("labels.txt").tobytes() == b"dogs\n"
for wrong in ("nothing", "images"):
    try:
        data.read_one(wrong)
    except AssertionError as error:
        print("refused:", error)
print("packed:", data.num_files())
