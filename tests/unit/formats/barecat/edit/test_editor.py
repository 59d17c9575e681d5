"""Changes to files."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tests.unit.formats.barecat.tools import FILES

from headrace.formats.barecat import Archive

if TYPE_CHECKING:
    from pathlib import Path


def test_many_threads_write(path: Path) -> None:
    with Archive(path, "x", shard_size=5000) as archive:
        names = [list(FILES)[i::4] for i in range(4)]
        threads = [
            threading.Thread(target=lambda part=part: archive.update({n: FILES[n] for n in part})) for part in names
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert dict(Archive(path).items()) == FILES
    assert Archive(path).verify().ok
