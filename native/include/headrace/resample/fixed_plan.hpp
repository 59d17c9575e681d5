// A plan of both axes in whole numbers, for few taps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "headrace/resample/axis_plan.hpp"

namespace headrace {

namespace kernels {
struct FixedColumns;
}  // namespace kernels

class FixedPlan {
 public:
  // Weights in 16384ths that sum to one; columns are padded with weights of nothing to a multiple.
  // Throws std::bad_alloc.
  void fill(const AxisPlan& rows, const AxisPlan& columns, bool is_signed, std::size_t multiple);

  [[nodiscard]] const std::int16_t* row_weights(std::size_t y) const noexcept {
    return row_weights_.data() + y * row_taps_;
  }
  [[nodiscard]] std::size_t pair_count() const noexcept { return pair_count_; }
  [[nodiscard]] kernels::FixedColumns columns(const std::uint8_t* table) const noexcept;

 private:
  std::vector<std::int16_t> row_weights_;
  std::vector<std::uint32_t> starts_;
  std::vector<std::uint32_t> pairs_;  // of weights
  std::size_t row_taps_ = 0;
  std::size_t pair_count_ = 0;
  std::size_t pixels_ = 0;
};

}  // namespace headrace
