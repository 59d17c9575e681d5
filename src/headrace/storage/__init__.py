"""Where bytes are: files mapped or read many spans at once, files that appear only when complete, plain memory."""

from headrace.storage.atomic import AtomicFile
from headrace.storage.cold import ColdReads, file_identity
from headrace.storage.folder_writer import FolderWriter
from headrace.storage.hidden_folder import HiddenFolder
from headrace.storage.leftovers import remove_leftovers
from headrace.storage.local import (
    check_mapping,
    is_mapped_file,
    map_descriptor,
    map_file,
    mapping_faults,
    records_ahead,
    release_behind,
    release_mapped,
    released_meanwhile,
)
from headrace.storage.memory import allocate_pages, available_bytes, is_lent, room_for
from headrace.storage.new_file import temporary_file
from headrace.storage.process_lock import process_lock
from headrace.storage.regular import check_regular, open_for_reading, open_stream
from headrace.storage.spool import Spool
from headrace.storage.walk import check_folder, group_left_out, note_left_out, summarize_left_out, walk_folder

__all__ = [
    "AtomicFile",
    "ColdReads",
    "FolderWriter",
    "HiddenFolder",
    "Spool",
    "allocate_pages",
    "available_bytes",
    "check_folder",
    "check_mapping",
    "check_regular",
    "file_identity",
    "group_left_out",
    "is_lent",
    "is_mapped_file",
    "map_descriptor",
    "map_file",
    "mapping_faults",
    "note_left_out",
    "open_for_reading",
    "open_stream",
    "process_lock",
    "records_ahead",
    "release_behind",
    "release_mapped",
    "released_meanwhile",
    "remove_leftovers",
    "room_for",
    "summarize_left_out",
    "temporary_file",
    "walk_folder",
]
