// PNG through libpng, where the build found it. Every function may be called from any thread.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headrace/bytes.hpp"
#include "headrace/image.hpp"
#include "headrace/status.hpp"

namespace headrace {

// The numbers of the file.
enum class PngColour : std::uint8_t {
  grey = 0,
  rgb = 2,
  palette = 3,
  grey_alpha = 4,
  rgb_alpha = 6
};

struct PngInfo {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  int bit_depth = 0;  // of a channel, or of a number of the palette
  PngColour colour = PngColour::grey;
  bool is_interlaced = false;
  bool has_transparency = false;  // a tRNS chunk; an alpha channel is a colour
  bool is_animated = false;

  // Grey, RGB, and both with alpha: 1, 3, 2, 4; 1 for numbers of a palette.
  [[nodiscard]] std::size_t channels() const noexcept;
  // decode_png takes it, unless it is transparent somewhere.
  [[nodiscard]] bool is_plain() const noexcept {
    return bit_depth <= 8 && !has_transparency && !is_animated;
  }
};

[[nodiscard]] bool has_png_decoder() noexcept;

// Reads the headers of all chunks before the pixels. An error's offset is a byte of `data`.
Result<PngInfo> read_png_info(ByteSpan data) noexcept;

// Decodes a plain PNG to interleaved RGB; `out` has exactly the bytes of `want`. An alpha channel
// is dropped where it says opaque everywhere. Fails with `unsupported` for a picture that is
// transparent somewhere or not plain, or in a build without libpng, with `corrupt` when the image
// has another size or damage, and with `truncated`. After a failure the contents of `out` are
// unspecified.
Status decode_png(ByteSpan data, ImageShape want, MutableByteSpan out) noexcept;

// Decodes a PNG of 16 bits a channel to numbers of 16 bits in the machine's byte order, channels()
// for each pixel, alpha as it is. `out` has exactly the bytes of `want` with so many channels.
Status decode_deep_png(ByteSpan data, ImageShape want, MutableByteSpan out) noexcept;

}  // namespace headrace
