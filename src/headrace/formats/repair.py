"""``headrace.repair``: put a dataset in order whose writer was killed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from headrace.errors import UnknownFormatError
from headrace.formats.open import find_format
from headrace.storage import check_local
from headrace.storage.leftovers import remove_leftovers
from headrace.types import RepairReport

if TYPE_CHECKING:
    from headrace.errors import PathLike

__all__ = ["repair"]


def repair(path: PathLike) -> RepairReport:
    """Put a dataset in order whose writer was killed, and remove what it has left beside it.

    A .barecat may be between two states: what was not committed is taken back, or a new archive that was taking the
    name takes it. What lies beside it must be what a writer leaves; anything else is refused, and nothing is changed.
    Files of other formats are whole or not there: only hidden files are removed.

    Args:
        path: a dataset of any known format, or a file that a killed process was about to write.

    Returns:
        A report that says what was done; ``report.done`` is empty when all was well.

    Raises:
        FormatError: what lies beside the archive is not what a writer leaves.
        ArchiveBusyError: a writer is at work.

    Example:
        >>> import os, tempfile, headrace
        >>> path = os.path.join(tempfile.mkdtemp(), "x.barecat")
        >>> headrace.write(path, [b"1"], fields={"data": headrace.Bytes()})
        >>> headrace.repair(path).done
        ()
    """
    check_local(path)
    name = os.fspath(path)
    done: list[str] = []
    is_there = True
    try:
        found = find_format(name)
        if found.repair is not None:
            done += found.repair(name).done
    except FileNotFoundError:
        is_there = False
    except UnknownFormatError:
        pass  # a tar, a zip, any file
    removed = [] if os.path.isdir(name) else remove_leftovers(name) + remove_leftovers(f"{name}.annex")
    if not is_there and not removed:
        raise FileNotFoundError(f"{name} does not exist")
    done += [f"{os.path.basename(file)} was removed, which no process needs any more" for file in removed]
    return RepairReport(path=name, done=tuple(done))
