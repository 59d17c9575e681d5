// Windows of baseline JPEGs by our own decoder: from the entry points of a tile index on, several
// rows of MCUs side by side, with the pixels of libjpeg-turbo's accurate decoder.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

#include "headrace/bytes.hpp"
#include "headrace/jpeg/window.hpp"
#include "headrace/status.hpp"

namespace headrace {

struct IndexedJpeg {
  ByteSpan bytes;
  ByteSpan tile_index;                  // packed, or nothing: then all rows are searched
  std::optional<std::uint32_t> crc32c;  // of the bytes, where it is known
};

// Samples of a component, in memory of the decoder.
struct SampleView {
  const std::uint8_t* samples = nullptr;
  std::size_t stride = 0;
  std::size_t left = 0;  // of the first one, in the whole component
  std::size_t top = 0;
  ImageShape shape{};
};

struct DecodedSamples {
  std::array<SampleView, 3> components{};
  std::size_t count = 0;  // of components: 1 or 3
  std::size_t h = 1;      // samples of the first one for each of the others, side by side and
  std::size_t v = 1;      // above each other
  bool is_ycc = false;
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
  // the data or the tile index is any other code. libjpeg-turbo may still be able to decode them.
  Status decode(const IndexedJpeg& jpeg, ImageShape stated, const Window& window,
                DecodedWindow& out) noexcept;

  // The same up to the samples that the window's pixels are made of, up to a level off: by a
  // transform in 16 bits. They are there until the next image.
  Status decode_samples(const IndexedJpeg& jpeg, ImageShape stated, const Window& window,
                        DecodedSamples& out) noexcept;

 private:
  struct Memory;
  Status decode_window(const IndexedJpeg& jpeg, ImageShape stated, const Window& window,
                       bool is_fast) noexcept;

  std::unique_ptr<Memory> memory_;
};

}  // namespace headrace
