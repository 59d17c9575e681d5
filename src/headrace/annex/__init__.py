"""Extra sections beside the samples: checksums, names, classes, schema, metadata, tile indices of JPEGs."""

from headrace.annex.container import REPAIR, TRAILER_SIZE, Annex, write_annex
from headrace.annex.file_sums import FILES, FileSums
from headrace.annex.places import COLUMNS, PLACES, places_section, read_places
from headrace.annex.sections import (
    CHECKSUMS,
    CLASSES,
    METADATA,
    NAMES,
    SCHEMA,
    TILE_INDEX,
    Names,
    TileIndex,
    checksums_section,
    json_section,
    names_section,
    read_checksums,
    read_json,
    read_names,
    read_tile_index,
    tile_index_section,
)
from headrace.annex.side import find_side, new_side_path, side_exists, side_path

__all__ = [
    "CHECKSUMS",
    "CLASSES",
    "COLUMNS",
    "FILES",
    "METADATA",
    "NAMES",
    "PLACES",
    "REPAIR",
    "SCHEMA",
    "TILE_INDEX",
    "TRAILER_SIZE",
    "Annex",
    "FileSums",
    "Names",
    "TileIndex",
    "checksums_section",
    "find_side",
    "json_section",
    "names_section",
    "new_side_path",
    "places_section",
    "read_checksums",
    "read_json",
    "read_names",
    "read_places",
    "read_tile_index",
    "side_exists",
    "side_path",
    "tile_index_section",
    "write_annex",
]
