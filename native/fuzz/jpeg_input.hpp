// What the fuzz targets of JPEG share: an input is a JPEG, then seven bytes that choose a window of
// it, a tile index, and one thing more. So all of them take the same corpus.
#pragma once

#include <cstdlib>
#include <span>
#include <vector>

#include "fuzz.hpp"
#include "headrace/jpeg/window.hpp"

namespace headrace::fuzz {

inline void require(bool holds) {
  if (!holds) std::abort();
}

struct JpegInput {
  ByteSpan data;
  ImageShape shape;
  Window window;
  unsigned tile;
  std::size_t change;  // of the tile index: 0 leaves it right
  unsigned other;
};

// False when there is no JPEG header, or it tells of more pixels.
bool read_input(ByteSpan bytes, std::uint64_t most_pixels, JpegInput& input);

// The packed tile index; false when the JPEG has none.
bool make_index(const JpegInput& input, std::vector<std::byte>& packed);

// All pixels by libjpeg; nothing when it fails.
std::vector<std::byte> decode_whole(ByteSpan data, ImageShape shape);

// The window of the image has these pixels; rows of both are without gaps.
void require_same(const std::vector<std::byte>& image, const JpegInput& input,
                  const std::byte* pixels, std::size_t row_stride);

std::vector<std::byte> make_jpeg(ImageShape shape, int quality);

// Valid inputs of several sizes and windows.
std::vector<Input> jpeg_inputs();

}  // namespace headrace::fuzz
