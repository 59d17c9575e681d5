// Interleaved RGB images of 8 bits a channel.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headrace/bytes.hpp"
#include "headrace/status.hpp"

namespace headrace {

inline constexpr std::size_t kRgbChannels = 3;

struct ImageShape {
  std::size_t width;
  std::size_t height;
};

// Bytes of an RGB image without gaps between its rows.
[[nodiscard]] inline Result<std::size_t> rgb_size_bytes(ImageShape shape) noexcept {
  std::uint64_t row = 0;
  std::uint64_t total = 0;
  if (!checked_multiply(shape.width, kRgbChannels, row) ||
      !checked_multiply(row, shape.height, total) || total > PTRDIFF_MAX) {
    return Status(Code::too_large, Detail("an RGB image of ") << shape.width << "x" << shape.height
                                                              << " pixels does not fit in memory");
  }
  return static_cast<std::size_t>(total);
}

}  // namespace headrace
