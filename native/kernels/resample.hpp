// What the two passes of resampling with few taps share. Both work in whole numbers, with sums that
// are exact in 32 bits, so that all levels give the same bytes: resample_rows.cpp blends rows, at
// source width; resample_columns.cpp (of one channel reduce_plane.cpp, of many pixels sixteens.cpp)
// reduces each output row once. Included by kernel sources: everything here is theirs alone,
// compiled for their level.
#pragma once

#include "kernels/kernels.hpp"

#if defined(__SSE4_1__)
#include <immintrin.h>
#endif

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

[[maybe_unused]] constexpr int kBlendShift = 7;    // 14 bits of weight, 7 of them kept
[[maybe_unused]] constexpr int kReduceShift = 21;  // 7 bits kept, 14 bits of weight

// What a sum of the second pass becomes: a grey level where the first pass kept 7 bits, and 128ths
// of one where it kept none.
struct Levels {
  using Value = uint8_t;
  static constexpr int kShift = kReduceShift;
};
struct Parts {
  using Value = int16_t;
  static constexpr int kShift = kBlendShift;
  static constexpr int kWhite = 255 << kBlendShift;
};

}  // namespace
}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
