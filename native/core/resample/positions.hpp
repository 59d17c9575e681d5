// Positions along an axis of an image, in pixels and parts of them.
#pragma once

#include <cstddef>

namespace headrace {

// A source touched by less than this share is left out, as OpenCV does.
inline constexpr double kNegligible = 1e-3;

// Positions are not negative: cutting is rounding down.
[[nodiscard]] constexpr std::size_t cut(double position) noexcept {
  return static_cast<std::size_t>(position);
}

}  // namespace headrace
