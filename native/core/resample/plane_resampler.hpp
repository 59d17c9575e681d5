// Resampling of a part of one plane of samples, in whole numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/resample/filter_plan.hpp"
#include "headrace/image.hpp"
#include "headrace/resample/fixed_plan.hpp"
#include "headrace/status.hpp"

namespace headrace {

struct PlaneRequest {
  ImageShape plane{};  // samples there are
  Region region{};     // of them; with fractions
  AxisKind columns = AxisKind::area;
  AxisKind rows = AxisKind::area;
  ImageShape out{};
  bool is_flipped = false;
};

// A plan for one plane after another; its memory is reused. One for each thread.
class PlaneResampler {
 public:
  // Bytes that are written behind a row.
  static constexpr std::size_t kSlack = 16;

  // `unsupported` where much is reduced. All SIMD levels give the same bytes.
  Status plan(const PlaneRequest& request) noexcept;

  // Row `y` of the output. Only after a plan that succeeded.
  void write_row(const std::uint8_t* plane, std::size_t stride, std::size_t y,
                 std::uint8_t* out) noexcept;

 private:
  void prepare();

  AxisPlan columns_;
  AxisPlan rows_;
  FixedPlan fixed_;
  std::size_t first_column_ = 0;  // the first one used; starts count from it
  std::size_t used_columns_ = 0;
  std::vector<std::uint8_t> table_memory_;
  const std::uint8_t* table_ = nullptr;  // inside table_memory_, or none
  std::vector<std::int16_t> work_;
};

}  // namespace headrace
