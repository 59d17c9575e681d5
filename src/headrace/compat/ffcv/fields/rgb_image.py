"""Pictures: the field, and the decoders that crop while they decode."""

from __future__ import annotations

from abc import ABCMeta, abstractmethod
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from headrace import fields
from headrace._native import ImageLoader
from headrace.codecs import jpeg
from headrace.compat.ffcv.fields.base import Field, no_arguments
from headrace.compat.ffcv.images import load_images
from headrace.compat.ffcv.pipeline.allocation_query import AllocationQuery
from headrace.compat.ffcv.pipeline.compiled import compiled
from headrace.compat.ffcv.pipeline.compiler import Compiler
from headrace.compat.ffcv.pipeline.operation import Operation
from headrace.compat.ffcv.pipeline.own_random import OwnRandom
from headrace.compat.ffcv.storage import column_of, locate_images
from headrace.compat.passed_on import pass_on
from headrace.ops import RandomResizedCrop

if TYPE_CHECKING:
    from collections.abc import Callable

    from headrace.compat.ffcv.pipeline.state import State
    from headrace.ops import Draws
    from headrace.types import ImageSpans

__all__ = [
    "IMAGE_MODES",
    "CenterCropRGBImageDecoder",
    "RGBImageField",
    "RandomResizedCropRGBImageDecoder",
    "ResizedCropRGBImageDecoder",
    "SimpleRGBImageDecoder",
    "encode_jpeg",
    "get_center_crop",
    "get_random_crop",
    "resizer",
]
pass_on(
    globals(),
    "ABCMeta ARG_TYPE AllocationQuery Callable Compiler Field Operation Optional State TYPE_CHECKING Tuple Type "
    "abstractmethod cv2 imdecode memcpy np replace resize_crop",
    Dict="numba.typed.Dict",
    Image="PIL.Image.Image",
)

IMAGE_MODES = {"jpg": 0, "raw": 1}
_LONGEST_SIDE = 65_535
_PIXEL = np.dtype("<u1")


def encode_jpeg(numpy_image: Any, quality: int) -> npt.NDArray[np.uint8]:
    """The bytes of a JPEG file with a picture."""
    return np.frombuffer(jpeg.encode(np.ascontiguousarray(numpy_image), quality=int(quality)), np.uint8)


def resizer(image: Any, target_resolution: int | None) -> npt.NDArray[np.uint8]:
    """A picture whose longer side is at most ``target_resolution``, shrunk by averaging areas."""
    stored = RGBImageField("raw", max_resolution=target_resolution).as_headrace().encode(image, 0)
    _, width, height = stored.facts
    return np.frombuffer(stored.payload or b"", np.uint8).reshape(int(height), int(width), 3)


def get_random_crop(height: Any, width: Any, scale: Any, ratio: Any) -> tuple[int, int, int, int]:
    """Top, left, height and width of a random crop, from numpy's global generator."""
    height, width = int(height), int(width)
    area, log_ratio = height * width, np.log(ratio)
    for _ in range(10):
        target = area * np.random.uniform(scale[0], scale[1])
        aspect = np.exp(np.random.uniform(log_ratio[0], log_ratio[1]))
        w, h = round(np.sqrt(target * aspect)), round(np.sqrt(target / aspect))
        if 0 < w <= width and 0 < h <= height:
            top = int(np.random.uniform(0, height - h + 1))
            left = int(np.random.uniform(0, width - w + 1))
            return top, left, h, w
    h = min(height, round(width / min(ratio))) if width / height < min(ratio) else height
    w = min(width, round(height * max(ratio))) if width / height > max(ratio) else width
    return (height - h) // 2, (width - w) // 2, h, w


def get_center_crop(height: Any, width: Any, _: Any, ratio: Any) -> tuple[int, int, int, int]:
    """Top, left, height and width of the middle square."""
    height, width = int(height), int(width)
    side = int(ratio * min(height, width))
    return (height - side) // 2, (width - side) // 2, side, side


def _crop_loop(generate: Any) -> Any:
    crop_of = Compiler.compile(generate)

    def loop(heights: Any, widths: Any, scale: Any, ratio: Any, crops: Any) -> None:
        for i in range(len(heights)):
            top, left, height, width = crop_of(heights[i], widths[i], scale, ratio)
            crops[i, 0] = top
            crops[i, 1] = left
            crops[i, 2] = height
            crops[i, 3] = width

    return loop


class SimpleRGBImageDecoder(Operation):
    """Pictures as they are; all of a file must have one size."""

    _fill_crops: Any = None

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Any]:
        """Pictures of the size that all have."""
        widths, heights = self.metadata["width"], self.metadata["height"]
        shape = (int(heights.max(initial=0)), int(widths.max(initial=0)), 3)
        if (widths != shape[1]).any() or (heights != shape[0]).any():
            raise TypeError(
                "SimpleRGBImageDecoder takes pictures of one size, and these have several; "
                "use RandomResizedCropRGBImageDecoder or CenterCropRGBImageDecoder"
            )
        return replace(previous_state, jit_mode=True, shape=shape, dtype=_PIXEL), AllocationQuery(shape, _PIXEL)

    def choose_crops(self, spans: ImageSpans, draws: Draws | None) -> npt.NDArray[np.int32] | None:
        """Rows of top, left, height and width, or None for whole pictures; ``draws`` has the random numbers."""
        return None

    def generate_code(self) -> Callable[..., Any]:
        """A function that decodes a batch by one native call."""
        native = ImageLoader(max(1, Compiler.num_threads))
        self._fill_crops = None

        def decode(batch_indices: Any, destination: Any, metadata: Any, storage_state: Any) -> Any:
            out = destination[0] if isinstance(destination, tuple) else destination
            out = out[: len(batch_indices)]
            spans = locate_images(metadata, batch_indices, storage_state, column=column_of(self, metadata))
            load_images(native, spans, self.choose_crops(spans, None), out, batch_indices)
            return out

        decode.is_parallel = True  # type: ignore[attr-defined]
        decode.is_native = True  # type: ignore[attr-defined]
        return decode


class ResizedCropRGBImageDecoder(SimpleRGBImageDecoder, metaclass=ABCMeta):
    """A part of each picture, resized; subclasses choose the part."""

    scale: Any = None
    ratio: Any = None

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def declare_state_and_memory(self, previous_state: State) -> tuple[State, Any]:
        """Pictures of the output size; memory for them, and for the largest whole picture."""
        shape = (int(self.output_size[0]), int(self.output_size[1]), 3)
        self.max_width = int(self.metadata["width"].max(initial=0))
        self.max_height = int(self.metadata["height"].max(initial=0))
        whole_size = (self.max_height * self.max_width * 3,)
        queries = (AllocationQuery(shape, _PIXEL), AllocationQuery(whole_size, _PIXEL))
        return replace(previous_state, jit_mode=True, shape=shape, dtype=_PIXEL), queries

    @property
    @abstractmethod
    def get_crop_generator(self) -> Callable[..., tuple[int, int, int, int]]:
        """A function of (height, width, scale, ratio) that gives top, left, height and width."""
        raise NotImplementedError

    def choose_crops(self, spans: ImageSpans, draws: Draws | None) -> npt.NDArray[np.int32] | None:
        """Ask the crop generator for each picture; it is that of the time when the code was made."""
        if self._fill_crops is None:
            name = f"{type(self).__name__}.get_crop_generator"
            self._fill_crops = compiled(_crop_loop(self.get_crop_generator), name, OwnRandom())
        scale, ratio = (np.array(v) if isinstance(v, tuple) else v for v in (self.scale, self.ratio))
        crops = np.empty((len(spans.sizes), 4), np.int32)
        self._fill_crops(spans.heights.astype(np.int64), spans.widths.astype(np.int64), scale, ratio, crops)
        return crops


class RandomResizedCropRGBImageDecoder(ResizedCropRGBImageDecoder):
    """A random part of each picture, resized to ``output_size`` (height, width)."""

    def __init__(self, output_size: Any, scale: Any = (0.08, 1.0), ratio: Any = (0.75, 4 / 3)) -> None:
        super().__init__(output_size)
        self.scale = scale
        self.ratio = ratio

    @property
    def get_crop_generator(self) -> Callable[..., tuple[int, int, int, int]]:
        """The usual random crop."""
        return get_random_crop

    def choose_crops(self, spans: ImageSpans, draws: Draws | None) -> npt.NDArray[np.int32] | None:
        """Draw all crops of a batch at once."""
        if draws is None or self.get_crop_generator is not get_random_crop:
            return super().choose_crops(spans, draws)
        scale, ratio = tuple(self.scale), tuple(self.ratio)
        op = RandomResizedCrop(tuple(self.output_size), scale=scale, ratio=ratio)
        return op.crops(spans.heights.astype(np.int64), spans.widths.astype(np.int64), draws)


class CenterCropRGBImageDecoder(ResizedCropRGBImageDecoder):
    """The middle square of each picture, of ``ratio`` times its shorter side, resized to ``output_size``."""

    def __init__(self, output_size: Any, ratio: float) -> None:
        super().__init__(output_size)
        self.ratio = ratio

    @property
    def get_crop_generator(self) -> Callable[..., tuple[int, int, int, int]]:
        """The middle square."""
        return get_center_crop

    def choose_crops(self, spans: ImageSpans, draws: Draws | None) -> npt.NDArray[np.int32] | None:
        """Compute all crops of a batch at once."""
        if self.get_crop_generator is not get_center_crop:
            return super().choose_crops(spans, draws)
        heights, widths = spans.heights.astype(np.int64), spans.widths.astype(np.int64)
        sides = (self.ratio * np.minimum(heights, widths)).astype(np.int64)
        return np.stack([(heights - sides) // 2, (widths - sides) // 2, sides, sides], 1).astype(np.int32)


class RGBImageField(Field):
    """A picture, stored as pixels or as JPEG; see headrace.Image for what the modes mean."""

    def __init__(
        self,
        write_mode: str = "raw",
        max_resolution: int | None = None,
        smart_threshold: int | None = None,
        jpeg_quality: int = 90,
        compress_probability: float = 0.5,
    ) -> None:
        self.write_mode = write_mode
        self.smart_threshold = smart_threshold
        self.max_resolution = max_resolution
        self.jpeg_quality = int(jpeg_quality)
        self.proportion = compress_probability

    @property
    def metadata_type(self) -> np.dtype[Any]:
        """Mode, width, height and pointer."""
        return np.dtype([("mode", "<u1"), ("width", "<u2"), ("height", "<u2"), ("data_ptr", "<u8")])

    def get_decoder_class(self) -> Any:
        """SimpleRGBImageDecoder."""
        return SimpleRGBImageDecoder

    @staticmethod
    def from_binary(binary: Any) -> Field:
        """There are no arguments."""
        return RGBImageField()

    def to_binary(self) -> Any:
        """There are no arguments."""
        return no_arguments()

    def as_headrace(self) -> fields.Image:
        """The field that stores the same."""
        if self.write_mode not in ("raw", "jpg", "smart", "proportion"):
            raise ValueError(f"Unsupported write mode {self.write_mode}")
        mode: Any = self.write_mode
        return fields.Image(
            mode=mode,
            max_side=None if self.max_resolution is None else min(int(self.max_resolution), _LONGEST_SIDE),
            quality=min(max(self.jpeg_quality, 1), 100),
            smart_threshold=self.smart_threshold,
            compress_probability=min(max(self.proportion, 0.0), 1.0),
        )

    def encode(self, destination: Any, image: Any, malloc: Any) -> None:
        """Store a Pillow image or a uint8 array of height x width x 3."""
        pixels = checked_pixels(image)
        encoded = self.as_headrace().encode(pixels, int(np.random.randint(1 << 31)))
        mode, width, height = encoded.facts
        payload = encoded.payload or b""
        destination["mode"], destination["width"], destination["height"] = mode, width, height
        destination["data_ptr"], storage = malloc(len(payload))
        storage[:] = np.frombuffer(payload, np.uint8)


def checked_pixels(image: Any) -> npt.NDArray[np.uint8]:
    """A picture as FFCV takes it; TypeError or ValueError for what it does not."""
    if not isinstance(image, np.ndarray) and hasattr(image, "getbands"):  # a Pillow image
        image = np.array(image)
    if not isinstance(image, np.ndarray):
        raise TypeError(f"Unsupported image type {type(image)}")
    if image.dtype != np.uint8:
        raise ValueError("Image type has to be uint8")
    if image.ndim < 3:
        raise IndexError(f"Invalid shape for rgb image: {image.shape}; a grey picture needs three equal channels")
    if image.ndim != 3 or image.shape[2] != 3:
        raise ValueError(f"Invalid shape for rgb image: {image.shape}")
    return image
