// Samples of a batch blended with their neighbours: mixup.
#pragma once

#include <span>

#include "headrace/bytes.hpp"
#include "headrace/output_type.hpp"
#include "headrace/status.hpp"

namespace headrace {

// out[i] = values[i] * weights[i] + values[i - 1] * (1 - weights[i]), where the sample before the
// first is the last one: in single precision, then cut to a whole number (uint8) or rounded to the
// nearest half (float16). There are as many samples of equal size as weights; these are 0 to 1.
Status mix(OutputType type, ByteSpan values, std::span<const float> weights,
           MutableByteSpan out) noexcept;

}  // namespace headrace
