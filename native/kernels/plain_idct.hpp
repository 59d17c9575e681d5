// One dimension of the accurate inverse DCT of libjpeg (jidctint), without vectors. Compiled for
// GPUs, too, which therefore have the same bits.
//
// Everything is `static`: kernel sources share no copy of a function with other sources, which are
// compiled for other CPUs.
#pragma once

#include <stdint.h>

#include "core/device.hpp"

namespace headrace::kernels {

// All constants are sums of those of jidctint, in 1/8192; in exact arithmetic the order of
// additions does not matter. `rounding` is added before the shift. Numbers out of range wrap
// around. Written out, so that values stay in registers. `out` may be `values`.
template <int kShift>
HEADRACE_DEVICE static inline void inverse_dct(const int32_t* values, uint32_t rounding,
                                               int32_t* out) {
  const auto v0 = static_cast<uint32_t>(values[0]), v1 = static_cast<uint32_t>(values[1]),
             v2 = static_cast<uint32_t>(values[2]), v3 = static_cast<uint32_t>(values[3]),
             v4 = static_cast<uint32_t>(values[4]), v5 = static_cast<uint32_t>(values[5]),
             v6 = static_cast<uint32_t>(values[6]), v7 = static_cast<uint32_t>(values[7]);
  const uint32_t t0 = (v0 + v4) * 8192 + rounding, t1 = (v0 - v4) * 8192 + rounding;
  const uint32_t t2 = 4433 * v2 - 10704 * v6, t3 = 10703 * v2 + 4433 * v6;
  const uint32_t even0 = t0 + t3, even1 = t1 + t2, even2 = t1 - t2, even3 = t0 - t3;
  const uint32_t odd0 = 11363 * v1 + 9633 * v3 + 6437 * v5 + 2260 * v7;
  const uint32_t odd1 = 9633 * v1 - 2259 * v3 - 11362 * v5 - 6436 * v7;
  const uint32_t odd2 = 6437 * v1 - 11362 * v3 + 2261 * v5 + 9633 * v7;
  const uint32_t odd3 = 2260 * v1 - 6436 * v3 + 9633 * v5 - 11363 * v7;
  out[0] = static_cast<int32_t>(even0 + odd0) >> kShift;
  out[1] = static_cast<int32_t>(even1 + odd1) >> kShift;
  out[2] = static_cast<int32_t>(even2 + odd2) >> kShift;
  out[3] = static_cast<int32_t>(even3 + odd3) >> kShift;
  out[4] = static_cast<int32_t>(even3 - odd3) >> kShift;
  out[5] = static_cast<int32_t>(even2 - odd2) >> kShift;
  out[6] = static_cast<int32_t>(even1 - odd1) >> kShift;
  out[7] = static_cast<int32_t>(even0 - odd0) >> kShift;
}

}  // namespace headrace::kernels
