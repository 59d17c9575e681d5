// PNGs of every kind through libpng. In builds without it all of this fails with `unsupported`.
#pragma once

#include <cstdint>

#include "headrace/png.hpp"

namespace headrace {

// What decode_png does, for a plain PNG of this header; `out` has the bytes of the picture.
Status decode_by_libpng(ByteSpan data, const PngInfo& info, std::uint8_t* out) noexcept;

// The same for decode_deep_png.
Status decode_deep_by_libpng(ByteSpan data, const PngInfo& info, std::uint8_t* out) noexcept;

}  // namespace headrace
