"""A folder of pictures among files that are none, and what it means as a dataset."""

from __future__ import annotations

from tests.helpers import image_file, picture

FILES = {
    "cat/b.jpg": image_file(picture(1, 20, 30), "JPEG"),
    "cat/a.PNG": image_file(picture(2, 10, 12), "PNG"),
    "dog/deep/er/c.jpeg": image_file(picture(3, 40, 25), "JPEG"),
    "ant/d.bmp": image_file(picture(4, 5, 6), "BMP"),
}
IGNORED = {"cat/notes.txt": b"x", "cat/.hidden.jpg": b"x", ".git/e.jpg": b"x", "empty/readme.md": b"x"}
KEYS = ["ant/d.bmp", "cat/a.PNG", "cat/b.jpg", "dog/deep/er/c.jpeg"]
LABELS = [0, 1, 1, 2]
