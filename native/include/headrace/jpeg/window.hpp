// Part of a JPEG, without the work for the rest of it that can be left out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "headrace/bytes.hpp"
#include "headrace/image.hpp"
#include "headrace/jpeg/codec.hpp"
#include "headrace/status.hpp"

namespace headrace {

struct Window {
  std::size_t left;
  std::size_t top;
  std::size_t width;
  std::size_t height;
};

struct JpegWindowOptions {
  bool fast_dct = false;           // less exact inverse DCT
  unsigned scale_denominator = 1;  // 1, 2, 4 or 8: decode at this part of the full size
};

// Where the pixels are: in `memory`, which is reused from image to image and only ever grows.
struct DecodedWindow {
  unsigned scale_denominator = 1;
  Window window{};  // in pixels of the scaled image
  std::size_t row_stride = 0;
  const std::byte* pixels = nullptr;  // of the window's first row and column
  std::vector<std::byte> memory;
};

// `out_of_bounds` unless the window is a part of an image of this shape, and not empty.
Status check_window(const Window& window, ImageShape stated) noexcept;

// 1, 2, 4 or 8: the largest by which the window can be divided and still cover `least`.
[[nodiscard]] unsigned scale_denominator_for(const Window& window, ImageShape least) noexcept;

// Decodes the pixels of `window`, a part of an image of the size `stated`, to interleaved RGB. At
// full size they equal those of decode_jpeg. Damage before the window's last row is found by the
// rules of decode_jpeg; what follows is not read. After a failure `out` holds nothing to be used.
Status decode_jpeg_window(ByteSpan data, const JpegWindowOptions& options, ImageShape stated,
                          const Window& window, DecodedWindow& out) noexcept;

}  // namespace headrace
