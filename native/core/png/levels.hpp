// Numbers of a palette, and greys, to RGB.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "core/opaque.hpp"
#include "headrace/image.hpp"

namespace headrace {

// RGB of each number. What a palette does not have is black, as in Pillow.
using PngLevels = std::array<std::array<std::uint8_t, kRgbChannels>, 256>;

inline void fill_greys(unsigned bits, PngLevels& levels) noexcept {
  const unsigned highest = (1U << bits) - 1;
  for (unsigned i = 0; i <= highest; ++i) {
    levels[i].fill(static_cast<std::uint8_t>(i * 255 / highest));
  }
}

// In both, `from` may be the end of the row at `to`: what is written never overtakes what is read.
inline void spread_levels(const PngLevels& levels, const std::uint8_t* from, std::size_t width,
                          std::uint8_t* to) noexcept {
  for (std::size_t x = 0; x < width; ++x) {
    const auto colour = levels[from[x]];
    std::memcpy(to + kRgbChannels * x, colour.data(), kRgbChannels);
  }
}

// Grey with alpha; false when a pixel is not opaque.
[[nodiscard]] inline bool spread_grey(const std::uint8_t* from, std::size_t width,
                                      std::uint8_t* to) noexcept {
  std::uint8_t alphas = kOpaque;
  for (std::size_t x = 0; x < width; ++x) {
    const std::uint8_t grey = from[2 * x];
    alphas &= from[2 * x + 1];
    std::memset(to + kRgbChannels * x, grey, kRgbChannels);
  }
  return alphas == kOpaque;
}

}  // namespace headrace
