// The MCUs that the pixels of a window are made of.
#pragma once

#include <algorithm>

#include "core/jpeg/baseline.hpp"
#include "headrace/jpeg/window.hpp"

namespace headrace {

struct McuRange {
  std::size_t left, right;  // columns, the last one not included
  std::size_t top, bottom;  // rows
};

// Fancy upsampling mixes a sample of chroma with the ones beside it.
inline constexpr std::size_t kUpsamplingMargin = 2;
// Of images whose chroma is halved across: in narrower ones libjpeg repeats samples instead.
inline constexpr std::size_t kLeastMixedWidth = 5;

[[nodiscard]] inline McuRange mcus_of(const BaselineJpeg& jpeg, const Window& window) noexcept {
  const std::size_t x_margin = jpeg.h == 1 ? 0 : kUpsamplingMargin;
  const std::size_t y_margin = jpeg.v == 1 ? 0 : kUpsamplingMargin;
  const std::size_t right =
      std::min(jpeg.shape.width, window.left + window.width + x_margin) + jpeg.mcu_width() - 1;
  const std::size_t bottom =
      std::min(jpeg.shape.height, window.top + window.height + y_margin) + jpeg.mcu_height() - 1;
  return {(window.left - std::min(window.left, x_margin)) / jpeg.mcu_width(),
          right / jpeg.mcu_width(),
          (window.top - std::min(window.top, y_margin)) / jpeg.mcu_height(),
          bottom / jpeg.mcu_height()};
}

}  // namespace headrace
