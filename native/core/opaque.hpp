// Pixels with alpha to pixels without, where alpha says nothing.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headrace/status.hpp"

namespace headrace {

inline constexpr std::uint8_t kOpaque = 255;

// Drops alpha of RGBA pixels; false when one of them is not opaque.
[[nodiscard]] inline bool drop_alpha(const std::uint8_t* from, std::size_t pixels,
                                     std::uint8_t* to) noexcept {
  std::uint8_t alphas = kOpaque;
  for (std::size_t i = 0; i < pixels; ++i) {
    to[3 * i] = from[4 * i];
    to[3 * i + 1] = from[4 * i + 1];
    to[3 * i + 2] = from[4 * i + 2];
    alphas &= from[4 * i + 3];
  }
  return alphas == kOpaque;
}

[[nodiscard]] inline Status is_transparent() noexcept {
  return Status(Code::unsupported,
                "the picture is transparent in places, and nothing says what is behind it; flatten "
                "it first");
}

}  // namespace headrace
