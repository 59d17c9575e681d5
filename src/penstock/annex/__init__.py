"""Extra sections beside the samples: checksums, names, classes, schema, metadata."""

from penstock.annex.container import REPAIR, TRAILER_SIZE, Annex, write_annex
from penstock.annex.sections import (
    CHECKSUMS,
    CLASSES,
    METADATA,
    NAMES,
    SCHEMA,
    Names,
    checksums_section,
    json_section,
    names_section,
    read_checksums,
    read_json,
    read_names,
)
from penstock.annex.side import side_path

__all__ = [
    "CHECKSUMS",
    "CLASSES",
    "METADATA",
    "NAMES",
    "REPAIR",
    "SCHEMA",
    "TRAILER_SIZE",
    "Annex",
    "Names",
    "checksums_section",
    "json_section",
    "names_section",
    "read_checksums",
    "read_json",
    "read_names",
    "side_path",
    "write_annex",
]
