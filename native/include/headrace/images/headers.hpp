// Kind and size of pictures that lie in one region, by their headers.
#pragma once

#include <cstdint>
#include <span>

#include "headrace/bytes.hpp"
#include "headrace/io/gather.hpp"
#include "headrace/status.hpp"

namespace headrace {

// One entry for each picture: a StoredMode, and its sides.
struct PictureHeaders {
  std::span<std::uint8_t> modes;
  std::span<std::uint32_t> widths;
  std::span<std::uint32_t> heights;
};

// Sides are 0 and 0 for what the loader does not take as it is: damaged, of another kind, or a PNG
// or WebP of more than `max_pixels`, or in a build without their libraries. Fails when a span
// leaves `base`.
Status read_picture_headers(ByteSpan base, SpanList spans, std::uint64_t max_pixels,
                            const PictureHeaders& out) noexcept;

}  // namespace headrace
