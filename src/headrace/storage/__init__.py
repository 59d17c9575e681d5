"""Where bytes are: files mapped or read many spans at once, files that appear only when complete, plain memory."""

from headrace.storage.atomic import AtomicFile
from headrace.storage.block_cache import BlockCache, BlockKey, known_cache
from headrace.storage.block_memory import BLOCK_BYTES
from headrace.storage.cold import ColdReads, file_identity
from headrace.storage.folder_writer import FolderWriter
from headrace.storage.hidden_folder import HiddenFolder
from headrace.storage.joined_announcement import JoinedAnnouncement, join_announcements
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
from headrace.storage.places import list_stored, stored_exists, stored_size
from headrace.storage.process_lock import process_lock
from headrace.storage.regular import check_regular, open_for_reading, open_stream
from headrace.storage.remote_path import (
    RemotePath,
    StorageOptions,
    absolute,
    as_path,
    check_local,
    is_remote,
    name_part,
    storage_of,
)
from headrace.storage.spans import spans_in_blocks
from headrace.storage.spool import Spool
from headrace.storage.store_errors import shown_url
from headrace.storage.stored_file import LocalFile, StoredFile, StoredReader, StoredStream, open_reader, open_stored
from headrace.storage.walk import check_folder, group_left_out, note_left_out, summarize_left_out, walk_folder

__all__ = [
    "BLOCK_BYTES",
    "AtomicFile",
    "BlockCache",
    "BlockKey",
    "ColdReads",
    "FolderWriter",
    "HiddenFolder",
    "JoinedAnnouncement",
    "LocalFile",
    "RemotePath",
    "Spool",
    "StorageOptions",
    "StoredFile",
    "StoredReader",
    "StoredStream",
    "absolute",
    "allocate_pages",
    "as_path",
    "available_bytes",
    "check_folder",
    "check_local",
    "check_mapping",
    "check_regular",
    "file_identity",
    "group_left_out",
    "is_lent",
    "is_mapped_file",
    "is_remote",
    "join_announcements",
    "known_cache",
    "list_stored",
    "map_descriptor",
    "map_file",
    "mapping_faults",
    "name_part",
    "note_left_out",
    "open_for_reading",
    "open_reader",
    "open_stored",
    "open_stream",
    "process_lock",
    "records_ahead",
    "release_behind",
    "release_mapped",
    "released_meanwhile",
    "remove_leftovers",
    "room_for",
    "shown_url",
    "spans_in_blocks",
    "storage_of",
    "stored_exists",
    "stored_size",
    "summarize_left_out",
    "temporary_file",
    "walk_folder",
]
