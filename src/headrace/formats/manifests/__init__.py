"""What manifests share, texts with a record for each sample: columns, files that they name, writing them."""

from headrace.formats.manifests.dataset import ManifestDataset, ManifestOptions, RecordKind
from headrace.formats.manifests.records import MISSING, BadRecordError, record_index, scan_records
from headrace.formats.manifests.writer import KEY, ManifestWriter, check_names

__all__ = [
    "KEY",
    "MISSING",
    "BadRecordError",
    "ManifestDataset",
    "ManifestOptions",
    "ManifestWriter",
    "RecordKind",
    "check_names",
    "record_index",
    "scan_records",
]
