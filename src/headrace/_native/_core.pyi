"""Native core of headrace."""

from collections.abc import Sequence
import os
from typing import Annotated, Any, Literal

import numpy
from numpy.typing import NDArray
from typing_extensions import Buffer

import headrace.types


DEBUG: bool = False

class NativeError(ValueError):
    """
    Failure of a native call: code (a short name), offset (byte or row, -1 if none), detail.
    """

    code: str = ''

    offset: int = -1

    detail: str = ''

class PooledBuffer:
    """Memory from a pool, as a writable buffer."""

class BufferPool:
    """Lends memory of any size and uses it again."""

    def __init__(self, keep_bytes: int) -> None: ...

    @property
    def free_bytes(self) -> int:
        """Memory that is kept and lent to nobody."""

    def take(self, sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> list[PooledBuffer]:
        """A buffer of each size; large ones begin at their offset modulo 4096."""

def crc32c(data: Buffer, initial: int = 0) -> int:
    """
    CRC-32C of a buffer, continuing from the checksum of what came before it.
    """

def crc32c_spans(base: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]:
    """CRC-32C of each (offset, size) span of base."""

def crc32(data: Buffer, start: int = 0) -> int:
    """
    CRC-32 of a buffer as zlib has it, continuing from the checksum before it.
    """

def crc32_spans(base: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]:
    """CRC-32 of each (offset, size) span of base."""

def crc32c_file(fd: int, offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]:
    """
    CRC-32C of each (offset, size) span of an open file, which is read once.

    NativeError 'truncated' or 'io_error' has the position of the bad span as offset.
    """

def crc32c_rows(rows: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], holes: Sequence[tuple[int, int]]) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]:
    """
    CRC-32C of each row, with the bytes in the (offset, size) holes taken as zero.
    """

def find_wrong_row(rows: Annotated[NDArray[numpy.uint8], dict(shape=(None, None), order='C', device='cpu', writable=False)], holes: Sequence[tuple[int, int]], numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], checksums: Annotated[NDArray[numpy.uint32], dict(shape=(None, None), order='C', device='cpu', writable=False)]) -> int:
    """
    The position of the first of these row numbers whose row does not have the checksum in the first column of checksums, or -1.
    """

def crc32c_buffers(buffers: Sequence[Buffer]) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]:
    """CRC-32C of each buffer."""

def crc32_buffers(buffers: Sequence[Buffer]) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]:
    """CRC-32 of each buffer."""

def draw_uniforms(words: Sequence[int], samples: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], first: int, count: int) -> Annotated[NDArray[numpy.float64], dict(shape=(None, None))]:
    """
    headrace.counter_random.random_uniform of (words, sample, draw) as rows for count draws from first on. Words are below 2**64.
    """

def draw_resized_crops(words: Sequence[int], samples: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], heights: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], widths: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], scale: tuple[float, float], ratio: tuple[float, float]) -> Annotated[NDArray[numpy.int32], dict(shape=(None, None))]:
    """
    Top, left, height and width of a random part of each picture, named by (words, sample): those of RandomResizedCrop.
    """

def permute(positions: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], n: int, key: Sequence[int]) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Where the keyed permutation of the numbers below n sends each position.
    """

def interleave(shares: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], count: int) -> Annotated[NDArray[numpy.uint16], dict(shape=(None,))]:
    """
    A row of numbers of things whose proportions are those of the shares: of the first n the count of each is less than one away from its share.
    """

def locate_in_row(row: Annotated[NDArray[numpy.uint16], dict(shape=(None, None), order='C', device='cpu', writable=False)], before: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], period: int, places: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
    """
    What comes at places of a row that is repeated after a period, and how often it came before. The row is in blocks of 64 places; `before` has for each thing how often it comes before each block, and in the whole row.
    """

def find_in_row(row: Annotated[NDArray[numpy.uint16], dict(shape=(None, None), order='C', device='cpu', writable=False)], before: Annotated[NDArray[numpy.int64], dict(shape=(None, None), order='C', device='cpu', writable=False)], period: int, thing: int, numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    Where a thing comes for the first time (number 0), the second, and so on.
    """

def gather(base: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], checksums: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')] | None = None) -> list[bytes]:
    """
    Copy each (offset, size) span of base to a bytes object, with its CRC-32C if wanted.
    """

def gather_into(base: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], out_offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], checksums: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')] | None = None) -> None:
    """
    Copy each (offset, size) span of base into out, with its CRC-32C if wanted.
    """

class JpegInfo:
    """What the header of a JPEG says."""

    @property
    def width(self) -> int: ...

    @property
    def height(self) -> int: ...

    @property
    def components(self) -> int: ...

    @property
    def precision(self) -> int: ...

    @property
    def color_space(self) -> str: ...

    @property
    def progressive(self) -> bool: ...

    @property
    def arithmetic(self) -> bool: ...

    @property
    def lossless(self) -> bool: ...

def jpeg_info(data: Buffer) -> JpegInfo:
    """Read the header of a JPEG."""

def decode_jpeg(data: Buffer, out: Annotated[NDArray[numpy.uint8], dict(shape=(None, None, 3), order='C', device='cpu')], fast_dct: bool = False) -> None:
    """Decode a JPEG to RGB pixels of exactly the size of out."""

def encode_jpeg(pixels: Annotated[NDArray[numpy.uint8], dict(shape=(None, None, 3), order='C', device='cpu', writable=False)], quality: int) -> bytes:
    """Encode RGB pixels as a baseline 4:2:0 JPEG of quality 1 to 100."""

def slice_jpeg(data: Buffer, index: Buffer, left: int, top: int, width: int, height: int) -> tuple[bytes, int, int]:
    """
    Cut a smaller JPEG that covers the window out of one with a tile index, without loss; returns it, and the column and row in it at which the window begins.
    """

class TileIndexInfo:
    """What a tile index says of itself."""

    @property
    def jpeg_size(self) -> int: ...

    @property
    def jpeg_crc32c(self) -> int: ...

    @property
    def width(self) -> int: ...

    @property
    def height(self) -> int: ...

    @property
    def tile(self) -> int: ...

    @property
    def components(self) -> int: ...

    @property
    def rows(self) -> int: ...

    @property
    def columns(self) -> int: ...

def make_tile_index(data: Buffer, tile: int = 8) -> tuple[bytes | None, str]:
    """
    The packed tile index, with entry points for every tile-th MCU of every row of MCUs, and ""; or None and the reason why this kind of JPEG has none. Damage is an error.
    """

def locate_tile_indices(offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], packed_size: int, numbers: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint64], dict(shape=(None,))]]:
    """
    Where packed tile indices begin, and how long they are; 0 and 0 where their offsets make no sense.
    """

def tile_index_info(index: Buffer) -> TileIndexInfo:
    """Check a packed tile index and read its header."""

def resize_area(pixels: Annotated[NDArray[numpy.uint8], dict(shape=(None, None, 3), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.uint8], dict(shape=(None, None, 3), order='C', device='cpu')]) -> None:
    """Shrink RGB pixels to the size of out by area averaging."""

class AllocationTable:
    """The allocation table of a .beton file."""

    def __init__(self, data: Buffer) -> None:
        """View the raw bytes of a table."""

    def __len__(self) -> int:
        """Number of rows."""

    def sizes(self, pointers: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], guesses: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]:
        """
        Size of the allocation at each pointer, 2**64 - 1 where none is; guesses are rows to try first.
        """

    def check(self, data_start: int, data_end: int, page_size: int, num_samples: int, limit: int = 100) -> list[tuple[int, str, int]]:
        """
        Problems of the table as (row, kind, other row or -1), at most limit of them.
        """

class BetonColumn:
    """A field in the metadata records of a .beton file."""

    def __init__(self, records: Buffer, record_size: int, member_at: int, data_start: int, data_end: int) -> None: ...

    def pictures(self, table: AllocationTable, samples: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], rows_of_sample: int, row_in_sample: int) -> tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint8], dict(shape=(None,))], Annotated[NDArray[numpy.uint32], dict(shape=(None,))], Annotated[NDArray[numpy.uint32], dict(shape=(None,))]] | None:
        """
        Pointers, sizes, modes, widths and heights of pictures, or None when one of them is not as it should be. The row of the table to try first is sample * rows_of_sample + row_in_sample.
        """

    def arrays(self, samples: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], size: int) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))] | None:
        """
        Pointers of arrays of size bytes, or None when one is not inside the data.
        """

def place(sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None, None), order='C', device='cpu', writable=False)], cursor: int, page_size: int, data_start: int) -> tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None, None))], int]:
    """
    Assign file offsets to samples, each on one page; returns them and the next cursor.
    """

def check_ffr_offsets(table: Buffer, first_allowed: int, file_size: int) -> int:
    """
    Index of the first offset of an .ffr table that is below the one before it (or first_allowed) or above file_size; -1 when there is none.
    """

def check_ffr_header(header: Buffer, file_size: int) -> tuple[int, int]:
    """
    CRC-32 of the header of an .ffr file, and the index of the first offset that is wrong or -1, in one pass.
    """

class FfrTable:
    """Where the samples of .ffr files are, counted one file after the other."""

    def __init__(self, files: Sequence[Buffer], counts: Sequence[int]) -> None:
        """Take whole files and how many samples each has."""

    def __len__(self) -> int:
        """Number of samples."""

    def locate(self, indices: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.uint32], dict(shape=(None,))], Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint32], dict(shape=(None,))]]:
        """
        File, offset, size and stored checksum of samples; a size of 2**64 - 1 means that the offsets cannot be right.
        """

    def copy_into_each(self, files: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], outs: Sequence[Buffer], checksums: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')] | None = None) -> None:
        """
        Copy each span into a writable buffer of exactly its size, with its CRC-32 if wanted.
        """

    def copy_into(self, files: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], places: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], checksums: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')] | None = None) -> None:
        """Copy each span into out from its place on, with its CRC-32 if wanted."""

    def copy_bytes(self, files: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], checksums: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu')] | None = None) -> list[bytes]:
        """Copy each span to a bytes object, with its CRC-32 if wanted."""

def store_jpegs(sources: list[Buffer | str | os.PathLike[str]], max_side: int, quality: int, jpg_above: NDArray[numpy.uint64]) -> list[tuple[bool, int, int, Any] | None]:
    """
    Store JPEG files or bytes: (is JPEG, width, height, payload), or None where this one needs other means.
    """

class LoadOptions:
    """
    What ImageLoader.load makes of every batch. A table, of the type of the output, has the value of every channel and level, instead of scale and bias. With a fill (r, g, b), crops of the size of the output may stick out of their image, and it stands there. reduced decodes JPEGs at 1/2, 1/4 or 1/8 where the crop stays above the output. jpeg is "window", which decodes only what a crop needs where the pixels are those of libjpeg-turbo; "slice", where libjpeg-turbo decodes what a tile index cuts out; or "libjpeg". fast is an inverse DCT in 16 bits and colours at the size of the output, for the area and bilinear filters and where "window" uses the window decoder.
    """

    def __init__(self, *, channels_first: bool = False, interpolation: str = 'area', scale: Annotated[NDArray[numpy.float32], dict(shape=(3), order='C', device='cpu', writable=False)] | None = None, bias: Annotated[NDArray[numpy.float32], dict(shape=(3), order='C', device='cpu', writable=False)] | None = None, table: Annotated[NDArray, dict(shape=(3, 256), order='C', device='cpu', writable=False)] | None = None, fill: Sequence[int] | None = None, fast_dct: bool = False, reduced: bool = False, jpeg: str = 'window', fast: bool = False) -> None: ...

class LoadFailure:
    """An image that failed; its slot is zero."""

    @property
    def position(self) -> int: ...

    @property
    def code(self) -> str: ...

    @property
    def detail(self) -> str: ...

class LoadNote:
    """
    A JPEG that was decoded in spite of a broken tile index (kind "tile_index") or of damaged codes ("damage").
    """

    @property
    def position(self) -> int: ...

    @property
    def kind(self) -> str: ...

    @property
    def detail(self) -> str: ...

class LoadCounts:
    """
    How many JPEGs were decoded by the GPU, by a tile index, without one, and by libjpeg because of the options, the kind or damage; and how many tile indices were rejected.
    """

    def __init__(self) -> None: ...

    @property
    def gpu(self) -> int: ...

    @gpu.setter
    def gpu(self, arg: int, /) -> None: ...

    @property
    def window(self) -> int: ...

    @window.setter
    def window(self, arg: int, /) -> None: ...

    @property
    def window_without_tile_index(self) -> int: ...

    @window_without_tile_index.setter
    def window_without_tile_index(self, arg: int, /) -> None: ...

    @property
    def libjpeg_by_options(self) -> int: ...

    @libjpeg_by_options.setter
    def libjpeg_by_options(self, arg: int, /) -> None: ...

    @property
    def libjpeg_by_kind(self) -> int: ...

    @libjpeg_by_kind.setter
    def libjpeg_by_kind(self, arg: int, /) -> None: ...

    @property
    def libjpeg_by_damage(self) -> int: ...

    @libjpeg_by_damage.setter
    def libjpeg_by_damage(self, arg: int, /) -> None: ...

    @property
    def rejected_tile_indices(self) -> int: ...

    @rejected_tile_indices.setter
    def rejected_tile_indices(self, arg: int, /) -> None: ...

    def add(self, others: LoadCounts) -> None:
        """Count those of another batch, too."""

class LoadTimes:
    """
    Nanoseconds that the loader's threads worked on a batch, all of them together, by stage.
    """

    def __init__(self) -> None: ...

    @property
    def check_ns(self) -> int:
        """Finding the bytes and comparing checksums."""

    @property
    def decode_ns(self) -> int:
        """JPEG, PNG or WebP to pixels."""

    @property
    def resize_ns(self) -> int:
        """Pixels to the rows of the output: resample, flip, scale, copy."""

    @property
    def ops_ns(self) -> int:
        """Steps."""

class LoadReport:
    """What there is to tell of a batch."""

    @property
    def failures(self) -> list[LoadFailure]:
        """By position."""

    @property
    def notes(self) -> list[LoadNote]:
        """By position."""

    @property
    def counts(self) -> LoadCounts: ...

    @property
    def times(self) -> LoadTimes:
        """On a GPU: of what the CPU decodes."""

class ImageLoader:
    """
    Threads that turn stored images into batches; several threads may call load at once.
    """

    def __init__(self, threads: int) -> None: ...

    @property
    def threads(self) -> int:
        """
        Threads that decode; they start with the first load that has more to do than to copy. May be changed at any time, and counts from the next load on.
        """

    @threads.setter
    def threads(self, arg: int, /) -> None: ...

    def load(self, spans: headrace.types.ImageSpans, crops: Annotated[NDArray[numpy.int32], dict(shape=(None, 4), order='C', device='cpu', writable=False)] | None, flips: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, out: Annotated[NDArray, dict(shape=(None, None, None, None), order='C', device='cpu')], options: LoadOptions, steps: Sequence[tuple[str, Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)]]] = []) -> LoadReport:
        """
        Decode, crop (top, left, height, width; None takes images whole), resize, flip (None: none) and scale stored images into out. Steps are done in order before scaling: (kind, values of shape (images, k)) with kind and values brightness, contrast, saturation or sharpness (factor), flip or vertical_flip (not 0), cutout (top, left, height, width, r, g, b), translate (dy, dx, r, g, b), turn (quarters), affine (a, b, c, d, e, f, r, g, b), noise (top, left, height, width, two halves of a seed), hue (share of the circle), posterize (bits), solarize (threshold), autocontrast or equalize (not 0), blur (sigma, taps), or choice (the number of a kind in step_kinds(), and its values up to 9). Where 0 is a value like others, NaN does nothing.
        """

def step_kinds() -> list[str]:
    """The kinds of steps that ImageLoader.load knows, by number."""

class GpuMemory:
    """Memory of a GPU that arrays were made of."""

class GpuImageLoader:
    """
    An ImageLoader whose batches lie on a GPU. `kernels` are those of gpu_kernels(); the threads of `cpu` prepare batches and decode what the GPU cannot. Several threads may call it at once. NativeError with the code "unsupported": there is no driver, no such device, or it is of a kind that the kernels were not built for.
    """

    def __init__(self, device: int, kernels: bytes, cpu: ImageLoader) -> None: ...

    def load(self, spans: headrace.types.ImageSpans, crops: Annotated[NDArray[numpy.int32], dict(shape=(None, 4), order='C', device='cpu', writable=False)] | None, flips: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)] | None, out: object, options: LoadOptions, steps: Sequence[tuple[str, Annotated[NDArray[numpy.float32], dict(shape=(None, None), order='C', device='cpu', writable=False)]]] = []) -> LoadReport:
        """
        As ImageLoader.load, to the last bit; `out` is any array on the device with `__dlpack__`. The batch is complete when this returns, for every stream.
        """

    def empty(self, shape: Sequence[int], dtype: str) -> Annotated[Any, dict(device='cuda')]:
        """
        Memory of the device as an array with `__dlpack__`: uint8, float16 or float32. It comes back by `returned` once the array and all that was made of it are gone.
        """

    def returned(self) -> GpuMemory | None:
        """
        The memory of arrays that are gone since the last call, or None. It is used again when this object is gone: let go of it when nothing uses the memory any more that the arrays' users have queued.
        """

    @staticmethod
    def transposed(array: object, axes: Sequence[int]) -> object:
        """The same memory with its axes in another order."""

    def pin(self, memory: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """
        Pin whole pages that pictures lie in, as long as the loader lives. JPEGs in them are fetched by the GPU, which checks their checksums, too; the CPU reads their headers only. Loaders that pin the same memory share it. NativeError with the code "unsupported" where the system does not allow it: then they are copied, as without.
        """

    @property
    def pinned_bytes(self) -> int:
        """What was pinned so far."""

    @property
    def device_bytes(self) -> int:
        """
        Memory of the device held for batches under way; arrays are not counted.
        """

    @property
    def room_bytes(self) -> int:
        """
        Memory of the device that batches can have: what is free, and what the loader holds for batches under way and for arrays of its own.
        """

def gpu_can(options: LoadOptions, steps: Sequence[str]) -> bool:
    """
    True when the GPU can do what the options and the kinds of steps ask for.
    """

def gpu_driver_is_open() -> bool:
    """
    True when this process uses the driver of NVIDIA's GPUs, through whatever library.
    """

class MappingGuard:
    """
    A mapped file whose missing pages read as zeros, instead of ending the process.

    It is a read-only buffer of the file's bytes: use arrays on it, and it lives as long as
    they do. The file may be closed.
    """

    def __init__(self, fd: int) -> None: ...

    @property
    def faults(self) -> int:
        """Pages that could not be read in this process, so far."""

class SparseMapping:
    """
    Addresses for a large file, of which only parts are there; the rest takes no memory.

    It is a read-only buffer of all bytes: use arrays on it, and it lives as long as they do.
    What is touched and not there reads as zeros and is counted. A part begins at a page, and
    ends at one or at the end.
    """

    def __init__(self, size: int) -> None: ...

    def fill(self, start: int, data: Buffer) -> None:
        """Put bytes into place."""

    def adopt(self, start: int, size: int, from_mapping: SparseMapping, from_start: int) -> bool:
        """
        Let a part have the memory of another part of the same size, which is dropped, to
        overwrite it. False where the system cannot do that; then nothing has changed.
        """

    def overwrite(self, start: int, data: Buffer) -> None:
        """Put bytes into place, into memory that can be written to, and seal it."""

    def writable(self, start: int, size: int) -> Annotated[NDArray[numpy.uint8], dict(shape=(None,))]:
        """Fresh memory for a part; nobody may write to it once it is sealed."""

    def seal(self, start: int, size: int) -> None:
        """Make a part read-only."""

    def drop(self, start: int, size: int) -> None:
        """Give memory back; the part is not there any more."""

    @property
    def faults(self) -> int:
        """Pages that were touched and not there, in this process, so far."""

class RangeReader:
    """
    Reads many ranges of a file, or of several, at once; past the page cache if wanted.
    """

    def __init__(self, path: str | list[str] | tuple[str, ...], *, queue_depth: int = 64, direct: bool = False, engine: Literal['auto', 'io_uring', 'threads'] = 'auto') -> None: ...

    @property
    def engine(self) -> Literal['io_uring', 'threads']:
        """What is in use: io_uring or threads."""

    @property
    def is_direct(self) -> bool:
        """The page cache is passed by; False where the file system refused."""

    @property
    def size(self) -> int:
        """Bytes of the (first) file as it is now."""

    @property
    def files(self) -> int:
        """How many files."""

    def read(self, offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], places: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], checksums: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, checksum_kind: str = 'crc32c', files: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> list[tuple[int, str, str]]:
        """
        Read range i into out from places[i] on and check it where checksums are given.

        Of several files, files[i] says which one range i is of. Gives (position, code, detail) of those that could not be read.
        """

    def read_into(self, offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], outs: Sequence[Buffer], checksums: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None, checksum_kind: str = 'crc32c', files: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> list[tuple[int, str, str]]:
        """
        Like read, but range i goes to outs[i], a writable buffer of exactly its size.
        """

    def count_cached(self, offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], files: Annotated[NDArray[numpy.uint32], dict(shape=(None,), order='C', device='cpu', writable=False)] | None = None) -> int:
        """
        How many of these bytes are in the page cache; NativeError 'unsupported' where the system cannot tell.
        """

def mix(values: Annotated[NDArray, dict(order='C', device='cpu', writable=False)], weights: Annotated[NDArray[numpy.float32], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray, dict(order='C', device='cpu')]) -> None:
    """
    out[i] = values[i] * weights[i] + values[i - 1] * (1 - weights[i]), the sample before the first being the last; uint8 (cut to whole numbers), float16 or float32.
    """

class MsgpackScanner:
    """Where the values of a MessagePack stream are."""

    def __init__(self) -> None:
        """Begin at the first byte."""

    def scan(self, file: Buffer, until: int) -> None:
        """
        Go on to the first sample that begins at or behind a byte; the file is the same each time.
        """

    def strip_heads(self) -> None:
        """
        Of columns of texts alone, or of bytes alone: give what is inside of the values.
        """

    @property
    def position(self) -> int:
        """Where the next sample begins."""

    @property
    def samples(self) -> int:
        """Samples found so far."""

    @property
    def is_maps(self) -> bool:
        """The samples are maps with text keys."""

    @property
    def columns(self) -> list[bytes]:
        """Keys of the maps."""

    @property
    def offsets(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None, None))]:
        """First byte of each value, samples x columns."""

    @property
    def sizes(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None, None))]:
        """Bytes of each value, samples x columns."""

    @property
    def firsts(self) -> Annotated[NDArray[numpy.int64], dict(shape=(None, None))]:
        """
        First sample of each kind of value, columns x kinds; -1 where there is none.
        """

def decode_msgpack_ints(region: Buffer, offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """Integers of encoded values."""

def decode_msgpack_floats(region: Buffer, offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.float64], dict(shape=(None,))]:
    """Floating point numbers of encoded values; integers become such."""

class PathIndex:
    """Where the files of an archive are, by path, in about 50 bytes a file."""

    def __init__(self, capacity: int, key: int) -> None:
        """Room for so many files; key is a random number."""

    def __len__(self) -> int:
        """Number of files."""

    @property
    def memory_bytes(self) -> int:
        """Memory of the table."""

    def add(self, names: list, places: Annotated[NDArray[numpy.int64], dict(shape=(None, 4), order='C', device='cpu', writable=False)]) -> None:
        """
        Add files with rows of shard, offset, size and CRC-32C, which is -1 if not known.
        """

    def find(self, name: str) -> tuple[int, int, int, int | None] | None:
        """Shard, offset, size and CRC-32C of a file, or None."""

    def find_many(self, names: list) -> Annotated[NDArray[numpy.int64], dict(shape=(None, None))]:
        """
        Rows of shard, offset, size and CRC-32C; the shard is -1 where there is no such file.
        """

def picture_decoders() -> list[str]:
    """Kinds of pictures that this build decodes by itself."""

def picture_headers(base: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], max_pixels: int) -> tuple[Annotated[NDArray[numpy.uint8], dict(shape=(None,))], Annotated[NDArray[numpy.uint32], dict(shape=(None,))], Annotated[NDArray[numpy.uint32], dict(shape=(None,))]]:
    """
    Modes, widths and heights of the pictures in the (offset, size) spans of base; sides are 0 for what the loader does not take as it is.
    """

class PngInfo:
    """What the chunks before the pixels of a PNG say."""

    @property
    def width(self) -> int: ...

    @property
    def height(self) -> int: ...

    @property
    def bit_depth(self) -> int: ...

    @property
    def channels(self) -> int: ...

    @property
    def plain(self) -> bool:
        """decode_png takes it, unless it is transparent somewhere."""

def png_info(data: Buffer) -> PngInfo:
    """Read the headers of a PNG."""

def decode_png(data: Buffer, out: Annotated[NDArray[numpy.uint8], dict(shape=(None, None, 3), order='C', device='cpu')]) -> None:
    """Decode a plain PNG to RGB pixels of exactly the size of out."""

def decode_deep_png(data: Buffer, out: Annotated[NDArray[numpy.uint16], dict(shape=(None, None, None), order='C', device='cpu')]) -> None:
    """
    Decode a PNG of 16 bits a channel to numbers of exactly the shape of out.
    """

class WebpInfo:
    """What the header of a WebP says."""

    @property
    def width(self) -> int: ...

    @property
    def height(self) -> int: ...

    @property
    def has_alpha(self) -> bool: ...

    @property
    def animated(self) -> bool: ...

def webp_info(data: Buffer) -> WebpInfo:
    """Read the header of a WebP."""

def decode_webp(data: Buffer, out: Annotated[NDArray[numpy.uint8], dict(shape=(None, None, 3), order='C', device='cpu')]) -> None:
    """Decode a WebP to RGB pixels of exactly the size of out."""

class PlaceReader:
    """Reads files by their places in mapped shards; never changes."""

    def __init__(self, numbers: Sequence[int], shards: list) -> None:
        """Numbers and bytes of the shards."""

    def read(self, places: Annotated[NDArray[numpy.int64], dict(shape=(None, 4), order='C', device='cpu', writable=False)], checked: bool) -> tuple[list[bytes], list[int]]:
        """
        Files at rows of shard, offset, size and CRC-32C (-1 if not known), in this order, and the numbers of the shards they are from.

        NativeError 'out_of_bounds' or 'corrupt' has the position of the bad one as offset.
        """

    def read_into(self, places: Annotated[NDArray[numpy.int64], dict(shape=(None, 4), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], starts: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], checked: bool) -> list[int]:
        """The same into one array, file i from byte starts[i] on."""

class FileTable:
    """The files of an archive, straight from its mapped SQLite file."""

    def __init__(self, file: Buffer, table_root: int, path_index_root: int, columns: Sequence) -> None:
        """
        Pages where the table and its index of paths begin, and where path, shard, offset, size, crc32c, mode, uid, gid and mtime_ns stand in a row.
        """

    def find(self, name: str) -> tuple[int, int, int, int | None] | None:
        """Shard, offset, size and CRC-32C of a file, or None."""

    def find_many(self, names: list) -> Annotated[NDArray[numpy.int64], dict(shape=(None, None))]:
        """
        Rows of shard, offset, size and CRC-32C; the shard is -1 where there is no such file.
        """

    def fill(self, index: PathIndex) -> None:
        """Add all files to a PathIndex."""

    def is_sound(self, roots: Sequence[int]) -> bool:
        """
        All pages of the file fit together, when its trees begin at these pages; False also where that cannot be found out.
        """

    def agrees_with(self, indexes: Sequence[tuple[int, str]]) -> bool:
        """
        Indexes of the table, each a first page and 'path', 'parent' or 'address', say what the table says and are in order; False also where that cannot be found out.
        """

class FileRows:
    """Goes through the rows of a FileTable."""

    def __init__(self, table: FileTable, kind: type) -> None:
        """Rows become objects of this class of named tuples with nine fields."""

    def places(self, count: int) -> tuple[list[str], Annotated[NDArray[numpy.int64], dict(shape=(None, None))]]:
        """
        Paths of the next rows, at most so many, and rows of shard, offset, size and CRC-32C; NativeError 'corrupt' where a place is something else.
        """

    def block(self, count: int) -> list:
        """The next rows, at most so many; none at the end."""

def quasi_random_order_ffcv(samples: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu')], page_starts: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)], seed: int, pool: int) -> Annotated[NDArray[numpy.int64], dict(shape=(None,))]:
    """
    The order that FFCV draws from pool open pages, number for number. Page p has samples[page_starts[p]:page_starts[p + 1]], which is shuffled in place.
    """

def tar_header(name: str, is_directory: bool, mode: int, uid: int, gid: int, mtime_ns: int, size: int, has_exact_times: bool) -> bytes:
    """
    The header of a member of a tar, with records of pax where it needs them.
    """

def tar_members(names: list[str], facts: NDArray[numpy.int64], contents: NDArray[numpy.uint8], bounds: NDArray[numpy.int64], has_exact_times: bool) -> bytes:
    """
    Files of a tar: member i is contents[bounds[i]:bounds[i + 1]], and row i of the facts is its mode, uid, gid and mtime_ns.
    """

def tar_files(paths: list[str], names: list[str], most_bytes: int, has_exact_times: bool) -> tuple[bytes, int, int]:
    """
    Files and directories of the disk as members of a tar, up to the first that cannot be read or is larger than most_bytes; how many they are, and bytes of their contents.
    """

class TextRecords:
    """Where the records of a text are."""

    def __init__(self, delimiter: str | None = None) -> None:
        """Lines of JSON objects; with a delimiter, records of CSV."""

    def scan(self, file: Buffer, until: int) -> None:
        """
        Go on to the first record that begins at or behind a byte; the file is the same each time.
        """

    def __len__(self) -> int:
        """Records so far."""

    @property
    def position(self) -> int:
        """Where the next line begins."""

    @property
    def line(self) -> int:
        """Number of the next line."""

    @property
    def offsets(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]:
        """First byte of each record."""

    @property
    def sizes(self) -> Annotated[NDArray[numpy.uint64], dict(shape=(None,))]:
        """Bytes of each record, without the end of the line."""

def scan_tfrecord(file: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], start: int, max_records: int) -> tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint64], dict(shape=(None,))], int]:
    """
    Offsets and sizes of the data of records from a byte on, and where the next begins.

    Lengths are checked. NativeError has the byte where a bad record begins as offset.
    """

def check_tfrecords(base: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.uint32], dict(shape=(None,))]:
    """
    Compare the data of records with the checksums behind them, and give their CRC-32C.

    NativeError has the position of the bad record as offset.
    """

def gather_tfrecords(base: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], part_offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], part_sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> list[bytes]:
    """
    Copy a part of each record to a bytes object, if the record fits its checksum.

    NativeError has the position of the bad record as offset.
    """

def gather_tfrecords_into(base: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], part_offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], part_sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')], places: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
    """The same into one array, each part from its place on."""

def frame_tfrecords(records: Sequence[Buffer]) -> bytes:
    """
    What stands before (12 bytes) and after (4 bytes) the data of each record.
    """

def pack_tf_ints(values: Annotated[NDArray[numpy.int64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> bytes:
    """Numbers as a packed field of a protocol buffer."""

class TfExampleTable:
    """Where the features of tf.train.Examples are, row by row."""

    def __init__(self, max_cells: int, makes_checksums: bool = False) -> None:
        """
        Rows times columns are max_cells at most. With checksums, each record is compared.
        """

    def __len__(self) -> int:
        """Number of rows."""

    def add(self, file: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """
        Add a row for each record.

        NativeError has the position of the bad record as offset; all before it are added.
        """

    def add_bad(self) -> None:
        """Add a row for a record that cannot be read."""

    def columns(self) -> list:
        """
        Of each column: name, is_list, kind (0 none, 1 bytes, 2 floats, 3 ints), least and
        most values, least and most steps, is_message, and the row of another kind or -1.
        """

    def places(self, offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None, None))], Annotated[NDArray[numpy.uint64], dict(shape=(None, None))]]:
        """
        Offsets and sizes, rows x (1 + columns); the records that are given come first.
        """

    def checksums(self, file: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> Annotated[NDArray[numpy.uint32], dict(shape=(None, None))]:
        """CRC-32C of what lies at these places, where they are made; else zeros."""

def read_tf_ints(base: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], is_message: bool) -> tuple[Annotated[NDArray[numpy.int64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
    """All ints of spans, and where those of each span end."""

def read_tf_floats(base: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], is_message: bool) -> tuple[Annotated[NDArray[numpy.float32], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
    """All floats of spans, and where those of each span end."""

def find_tf_bytes(base: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
    """
    PlaceArray of the byte strings of Features, and where those of each end.
    """

def find_tf_steps(base: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], offsets: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)], sizes: Annotated[NDArray[numpy.uint64], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.int64], dict(shape=(None,))]]:
    """
    PlaceArray of the Features of FeatureLists, and where those of each end.
    """

def scan_recordio(file: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], start: int, max_records: int) -> tuple[Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint64], dict(shape=(None,))], Annotated[NDArray[numpy.uint8], dict(shape=(None,))], int]:
    """
    Offsets, sizes and is_split of records from a byte on, and where the next begins.

    NativeError has the byte where a bad part begins as offset.
    """

def join_recordio(record: Buffer) -> bytes:
    """The data of a record as it is stored, its parts joined."""

def encode_recordio(records: Sequence[Buffer]) -> list[bytes]:
    """
    Data of records as they are stored, split where they hold the magic number.
    """

class TextList:
    """Texts one after the other, as bytes."""

    def __len__(self) -> int:
        """Number of texts."""

    def __getitem__(self, index: int) -> bytes:
        """One of them."""

    @property
    def text(self) -> bytes:
        """All of them."""

    @property
    def ends(self) -> NDArray[numpy.uint64]:
        """Where each ends."""

class MemberGroups:
    """Which files make up a sample, by their names."""

    @property
    def groups(self) -> NDArray[numpy.uint32]:
        """Number of the sample of each file."""

    @property
    def columns(self) -> NDArray[numpy.uint16]:
        """Number of the ending of each file; 65535: it is in no sample."""

    @property
    def endings(self) -> TextList:
        """Endings, in lower case."""

    @property
    def keys(self) -> TextList:
        """Names of the samples."""

    @property
    def repeated(self) -> int:
        """The first file whose sample has its ending already, or -1."""

    @property
    def apart(self) -> int:
        """
        The first file of a sample whose key was that of an earlier one, or -1.
        """

def group_members(names: TextList) -> MemberGroups:
    """Samples as WebDataset makes them; the offset of a failure is a file."""

class TarScanner:
    """Finds the files of a tar by its headers."""

    def __init__(self, tar: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], makes_checksums: bool = False) -> None: ...

    def advance(self, headers: int) -> bool:
        """Read so many headers more; False when the end was reached."""

    @property
    def position(self) -> int:
        """Bytes that were passed."""

    @property
    def offsets(self) -> NDArray[numpy.uint64]:
        """Where contents begin."""

    @property
    def sizes(self) -> NDArray[numpy.uint64]:
        """Bytes of contents."""

    @property
    def checksums(self) -> NDArray[numpy.uint32]:
        """CRC-32C of contents, where they are made."""

    @property
    def names(self) -> TextList:
        """Names of the files."""

    @property
    def notes(self) -> list[tuple[str, int, bytes]]:
        """What is no regular file: why, how many, and the name of one."""

    @property
    def name(self) -> bytes:
        """The name that the last header said."""

class ZipFiles:
    """The files of a zip."""

    def __init__(self) -> None: ...

    def scan(self, zip: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)]) -> None:
        """Read the list of files of a zip."""

    @property
    def offsets(self) -> NDArray[numpy.uint64]:
        """Where the stored bytes begin."""

    @property
    def sizes(self) -> NDArray[numpy.uint64]:
        """How many bytes are stored."""

    @property
    def full_sizes(self) -> NDArray[numpy.uint64]:
        """How many bytes they become."""

    @property
    def checksums(self) -> NDArray[numpy.uint32]:
        """CRC-32 of the files."""

    @property
    def methods(self) -> NDArray[numpy.uint8]:
        """0: stored; 8: deflated."""

    @property
    def names(self) -> TextList:
        """Names of the files."""

    @property
    def special(self) -> int:
        """How many links and devices are left out."""

    @property
    def failed(self) -> bytes:
        """The name of the file that a failure is about."""

def inflate_into(stream: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu', writable=False)], out: Annotated[NDArray[numpy.uint8], dict(shape=(None,), order='C', device='cpu')]) -> int | None:
    """
    Unpack a stream of zlib into an array, and give the number of bytes. None when zlib has to be asked: the stream is damaged or has more bytes, or there is no libdeflate.
    """

def simd_level() -> str:
    """Instruction set the kernels use: scalar, sse42, avx2 or avx512."""

def set_simd_level(name: str) -> None:
    """
    Lower the instruction set the kernels use; never above what the CPU has.
    """
