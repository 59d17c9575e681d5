// JPEG through libjpeg-turbo. Every function may be called from any thread; each thread keeps its
// own codec handles, which are freed when the thread ends. Results never depend on what the thread
// decoded before.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "headrace/bytes.hpp"
#include "headrace/image.hpp"
#include "headrace/io/gather.hpp"
#include "headrace/status.hpp"

namespace headrace {

enum class JpegColorSpace : std::uint8_t { unknown, grayscale, ycbcr, rgb, cmyk, ycck };

[[nodiscard]] std::string_view color_space_name(JpegColorSpace color_space) noexcept;

struct JpegInfo {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  int components = 0;
  int precision = 0;  // bits a channel
  JpegColorSpace color_space = JpegColorSpace::unknown;
  bool is_progressive = false;
  bool is_arithmetic = false;
  bool is_lossless = false;  // lossless or hierarchical: the processes libjpeg does not know
};

// Reads the header up to the first scan. An error's offset is a byte of `data`.
Result<JpegInfo> read_jpeg_info(ByteSpan data) noexcept;

// Width and height of each JPEG that lies in `base`; 0 and 0 for what is damaged, no JPEG, or not
// of 8 bits with colours that are decoded to RGB here. Fails when a span leaves `base`.
Status read_jpeg_sides(ByteSpan base, SpanList spans, std::span<std::uint32_t> widths,
                       std::span<std::uint32_t> heights) noexcept;

struct JpegDecodeOptions {
  bool fast_dct = false;  // less exact inverse DCT
};

// Decodes to interleaved RGB; grey images are expanded. `out` has exactly the bytes of `want`.
// Fails with `corrupt` when the image has another size, and on any damage libjpeg would only warn
// about; a missing end marker after complete data of a single scan is no damage. After a failure
// the contents of `out` are unspecified.
Status decode_jpeg(ByteSpan data, JpegDecodeOptions options, ImageShape want,
                   MutableByteSpan out) noexcept;

// Baseline 4:2:0 with the standard Huffman tables, what OpenCV writes. `pixels` holds
// `shape.height` rows, `row_stride` bytes apart; `quality` is 1 to 100. `out` is overwritten.
Status encode_jpeg(ByteSpan pixels, ImageShape shape, std::size_t row_stride, int quality,
                   std::vector<std::byte>& out) noexcept;

}  // namespace headrace
