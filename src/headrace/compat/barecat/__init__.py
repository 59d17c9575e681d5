"""The module tree of barecat 0.3 over headrace: archives of many files."""

from headrace.compat.barecat._api import get_cached_reader, get_completion_script, open
from headrace.compat.barecat._api import version as __version__
from headrace.compat.barecat.cli.impl import (
    archive2barecat,
    barecat2archive,
    extract,
    merge,
    merge_symlink,
    read_index,
    write_index,
)
from headrace.compat.barecat.core.barecat import Barecat
from headrace.compat.barecat.core.index import Index
from headrace.compat.barecat.core.sharder import Sharder
from headrace.compat.barecat.core.types import (
    SHARD_SIZE_UNLIMITED,
    BarecatDirInfo,
    BarecatEntryInfo,
    BarecatFileInfo,
    Order,
)
from headrace.compat.barecat.exceptions import (
    BarecatError,
    BarecatIntegrityError,
    DirectoryNotEmptyBarecatError,
    FileExistsBarecatError,
    FileNotFoundBarecatError,
    FileTooLargeBarecatError,
    IsADirectoryBarecatError,
    NotADirectoryBarecatError,
    NotEnoughSpaceBarecatError,
)
from headrace.compat.barecat.io.codecs import DecodedView
from headrace.compat.barecat.io.fileobj import BarecatFileObject, BarecatReadOnlyFileObject, BarecatReadWriteFileObject
from headrace.compat.barecat.util.misc import exists, remove

__all__ = [
    "SHARD_SIZE_UNLIMITED",
    "Barecat",
    "BarecatDirInfo",
    "BarecatEntryInfo",
    "BarecatError",
    "BarecatFileInfo",
    "BarecatFileObject",
    "BarecatIntegrityError",
    "BarecatReadOnlyFileObject",
    "BarecatReadWriteFileObject",
    "DecodedView",
    "DirectoryNotEmptyBarecatError",
    "FileExistsBarecatError",
    "FileNotFoundBarecatError",
    "FileTooLargeBarecatError",
    "Index",
    "IsADirectoryBarecatError",
    "NotADirectoryBarecatError",
    "NotEnoughSpaceBarecatError",
    "Order",
    "Sharder",
    "__version__",
    "archive2barecat",
    "barecat2archive",
    "exists",
    "extract",
    "get_cached_reader",
    "get_completion_script",
    "merge",
    "merge_symlink",
    "open",
    "read_index",
    "remove",
    "write_index",
]
