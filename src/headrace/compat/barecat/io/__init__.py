"""Reading and writing."""

from headrace.compat.barecat.io.copyfile import accumulate_crc32c, copy, copy_crc32c, write_zeroes

__all__ = ["accumulate_crc32c", "copy", "copy_crc32c", "write_zeroes"]
