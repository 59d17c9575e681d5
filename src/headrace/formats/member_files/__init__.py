"""What formats share that hold files under names: which files make a sample, and what the files are."""

from headrace.formats.member_files.endings import SafeKeys, choose_endings, field_of_ending
from headrace.formats.member_files.grouping import FileList, arrange_files
from headrace.formats.member_files.member_dataset import MemberDataset
from headrace.formats.member_files.member_writer import MemberWriter

__all__ = [
    "FileList",
    "MemberDataset",
    "MemberWriter",
    "SafeKeys",
    "arrange_files",
    "choose_endings",
    "field_of_ending",
]
