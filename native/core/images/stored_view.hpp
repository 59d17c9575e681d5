// Where an image of a batch is stored, which part of it is used, and where that goes.
#pragma once

#include <cstddef>

#include "headrace/images/load.hpp"
#include "headrace/jpeg/window.hpp"

namespace headrace {

struct StoredImageView {
  ByteSpan bytes;
  StoredMode mode;
  ImageShape shape;
  Window crop;   // inside the image; empty when all of it would be outside
  Window place;  // of the crop in the output: all of it, unless the crop sticks out of the image
  bool is_flipped;
  ByteSpan tile_index;

  // Of the crop when it is resampled.
  [[nodiscard]] ImageShape out_shape() const noexcept { return {place.width, place.height}; }
  [[nodiscard]] bool is_empty() const noexcept { return place.width == 0 || place.height == 0; }
};

// Image `i`, checked.
Result<StoredImageView> locate_image(ByteSpan base, const LoadBatch& batch,
                                     const LoadOptions& options, std::size_t i) noexcept;

}  // namespace headrace
