#include "headrace/resample/fixed_plan.hpp"

#include <algorithm>

#include "core/resample/taps.hpp"
#include "kernels/kernels.hpp"

namespace headrace {
namespace {

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
    std::int16_t* weights = row_weights_.data() + y * row_taps_;
    quantize_weights(rows.weights.data() + y * rows.stride, rows.counts[y], is_signed,
                     [weights](std::size_t k, std::int16_t weight) { weights[k] = weight; });
  }
  pixels_ = columns.starts.size();
  pair_count_ = (columns.taps + 1) / 2;
  const std::size_t padded = (pixels_ + multiple - 1) / multiple * multiple;
  starts_.assign(padded, 0);
  std::copy(columns.starts.begin(), columns.starts.end(), starts_.begin());
  pairs_.assign(padded * pair_count_, 0);
  for (std::size_t j = 0; j < pixels_; ++j) {
    std::int16_t weights[kMaxFixedTaps + 1] = {};
    quantize_weights(columns.weights.data() + j * columns.stride, columns.counts[j], is_signed,
                     [&weights](std::size_t k, std::int16_t weight) { weights[k] = weight; });
    for (std::size_t p = 0; p < pair_count_; ++p) pairs_[p * padded + j] = pair_of(weights + 2 * p);
  }
}

kernels::FixedColumns FixedPlan::columns(const std::uint8_t* table) const noexcept {
  return {starts_.data(), pairs_.data(), pair_count_, pixels_, starts_.size(), table};
}

}  // namespace headrace
