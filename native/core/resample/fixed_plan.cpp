#include "headrace/resample/fixed_plan.hpp"

#include <algorithm>

#include "kernels/kernels.hpp"

namespace headrace {
namespace {

// std::floor is a call where the compiler may not count on SSE4.
int round_down(float value) noexcept {
  const int cut = static_cast<int>(value);
  return cut - (value < static_cast<float>(cut) ? 1 : 0);
}

// Each weight is the step of the rounded running sum, so that errors do not add up. Where no weight
// is negative, none becomes so by rounding.
void quantize(const float* weights, std::size_t count, bool is_signed, std::int16_t* out) noexcept {
  float sum = 0;
  int before = 0;
  for (std::size_t k = 0; k + 1 < count; ++k) {
    sum += weights[k];
    int now = round_down(sum * kFixedWeightOne + 0.5F);
    if (!is_signed) now = std::clamp(now, before, kFixedWeightOne);
    out[k] = static_cast<std::int16_t>(now - before);
    before = now;
  }
  out[count - 1] = static_cast<std::int16_t>(kFixedWeightOne - before);
}

std::uint32_t pair_of(const std::int16_t* weights) noexcept {
  return static_cast<std::uint32_t>(static_cast<std::uint16_t>(weights[0])) |
         static_cast<std::uint32_t>(static_cast<std::uint16_t>(weights[1])) << 16;
}

}  // namespace

void FixedPlan::fill(const AxisPlan& rows, const AxisPlan& columns, bool is_signed,
                     std::size_t multiple) {
  row_taps_ = rows.taps;
  row_weights_.resize(rows.starts.size() * row_taps_);
  for (std::size_t y = 0; y < rows.starts.size(); ++y) {
    quantize(rows.weights.data() + y * rows.stride, rows.counts[y], is_signed,
             row_weights_.data() + y * row_taps_);
  }
  pixels_ = columns.starts.size();
  pair_count_ = (columns.taps + 1) / 2;
  const std::size_t padded = (pixels_ + multiple - 1) / multiple * multiple;
  starts_.assign(padded, 0);
  std::copy(columns.starts.begin(), columns.starts.end(), starts_.begin());
  pairs_.assign(padded * pair_count_, 0);
  for (std::size_t j = 0; j < pixels_; ++j) {
    std::int16_t weights[kMaxFixedTaps + 1] = {};
    quantize(columns.weights.data() + j * columns.stride, columns.counts[j], is_signed, weights);
    for (std::size_t p = 0; p < pair_count_; ++p) pairs_[p * padded + j] = pair_of(weights + 2 * p);
  }
}

kernels::FixedColumns FixedPlan::columns(const std::uint8_t* table) const noexcept {
  return {starts_.data(), pairs_.data(), pair_count_, pixels_, starts_.size(), table};
}

}  // namespace headrace
