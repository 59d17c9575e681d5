// PNGs as most are: 8 bits a channel, not interlaced, nothing odd about them. All pixels are
// inflated at once by libdeflate, more than twice as fast as libpng does it.
#pragma once

#include <cstdint>
#include <optional>

#include "headrace/png.hpp"

namespace headrace {

// Decodes to RGB at `out`, which has the bytes of the picture. Nothing: libpng has to be asked,
// because the picture is of another kind or damaged, or there is no libdeflate.
std::optional<Status> inflate_png(ByteSpan data, const PngInfo& info, std::uint8_t* out) noexcept;

}  // namespace headrace
