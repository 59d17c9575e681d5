"""Extra sections beside the samples: checksums, names, classes, schema, metadata, indices of JPEGs."""

from headrace.annex.container import REPAIR, TRAILER_SIZE, Annex, write_annex
from headrace.annex.sections import (
    CHECKSUMS,
    CLASSES,
    JPEG_TILES,
    METADATA,
    NAMES,
    SCHEMA,
    Names,
    Tiles,
    checksums_section,
    json_section,
    names_section,
    read_checksums,
    read_json,
    read_names,
    read_tiles,
    tiles_section,
)
from headrace.annex.side import side_path

__all__ = [
    "CHECKSUMS",
    "CLASSES",
    "JPEG_TILES",
    "METADATA",
    "NAMES",
    "REPAIR",
    "SCHEMA",
    "TRAILER_SIZE",
    "Annex",
    "Names",
    "Tiles",
    "checksums_section",
    "json_section",
    "names_section",
    "read_checksums",
    "read_json",
    "read_names",
    "read_tiles",
    "side_path",
    "tiles_section",
    "write_annex",
]
