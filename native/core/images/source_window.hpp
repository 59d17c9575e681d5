// The part of a stored image that its crop is made of.
#pragma once

#include <algorithm>
#include <cstddef>

#include "core/images/stored_view.hpp"
#include "headrace/images/load.hpp"

namespace headrace {

// The crop, and what the filter uses around it, where pictures are decoded at 1/denominator.
[[nodiscard]] inline Window source_window(const LoadOptions& options, const StoredImageView& image,
                                          unsigned denominator) noexcept {
  const std::size_t support = support_of(options.filter);
  const auto widen = [&](std::size_t& begin, std::size_t& size, std::size_t out,
                         std::size_t limit) {
    if (support == 0) return;
    const std::size_t shrinking = size / (out * denominator) + 1;  // rounded up, at least 1
    const std::size_t margin = (support * shrinking + 1) * denominator;
    const std::size_t first = begin - std::min(begin, margin);
    size = std::min(limit, begin + size + margin) - first;
    begin = first;
  };
  Window window = image.crop;
  widen(window.left, window.width, image.place.width, image.shape.width);
  widen(window.top, window.height, image.place.height, image.shape.height);
  return window;
}

}  // namespace headrace
