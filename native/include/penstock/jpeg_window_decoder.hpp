// Windows of baseline JPEGs by our own decoder: from the entry points of a tile index on, several
// rows of MCUs side by side, with the pixels of libjpeg-turbo's accurate decoder.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "penstock/bytes.hpp"
#include "penstock/jpeg_window.hpp"
#include "penstock/status.hpp"

namespace penstock {

struct TiledJpeg {
  ByteSpan bytes;
  ByteSpan tiles;                       // the packed index, or nothing: then all rows are searched
  std::optional<std::uint32_t> crc32c;  // of the bytes, where it is known
};

// Keeps its memory from image to image; used by one thread at a time.
class JpegWindowDecoder {
 public:
  JpegWindowDecoder() noexcept;
  JpegWindowDecoder(const JpegWindowDecoder&) = delete;
  JpegWindowDecoder& operator=(const JpegWindowDecoder&) = delete;
  ~JpegWindowDecoder();

  // As decode_jpeg_window at full size and with the accurate DCT. `unsupported` are JPEGs of other
  // kinds, and those whose values leave the range in which all decoders agree; what is wrong with
  // the data or the index is any other code. libjpeg-turbo may still be able to decode them.
  Status decode(const TiledJpeg& jpeg, ImageShape stated, const Window& window,
                DecodedWindow& out) noexcept;

 private:
  struct Memory;
  std::unique_ptr<Memory> memory_;
};

}  // namespace penstock
