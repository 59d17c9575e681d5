// Shrinking by area averaging, equal to OpenCV's INTER_AREA.
#pragma once

#include "headrace/bytes.hpp"
#include "headrace/image.hpp"
#include "headrace/status.hpp"

namespace headrace {

// Shrinks an interleaved RGB image of 8 bits a channel; an equal size copies. Enlarging in either
// direction is an `invalid_argument`. All SIMD levels give the same bytes. The regions may not
// overlap.
Status resize_area(ByteSpan pixels, ImageShape shape, MutableByteSpan out,
                   ImageShape out_shape) noexcept;

}  // namespace headrace
