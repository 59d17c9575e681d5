// Filters as weights along one axis.
#pragma once

#include <cstddef>

#include "headrace/resample/resample.hpp"

namespace headrace {

enum class AxisKind { area, area_linear, triangle, cubic, lanczos, nearest };

// Some weights are negative.
[[nodiscard]] constexpr bool is_sharp(AxisKind kind) noexcept {
  return kind == AxisKind::cubic || kind == AxisKind::lanczos;
}

struct AxisRequest {
  AxisKind kind;
  double begin;  // of the region
  double length;
  double origin;      // of the sources in the picture
  std::size_t limit;  // sources there are
  std::size_t out_size;
  bool is_mirrored;
};

// Throws std::bad_alloc.
void plan_axis(const AxisRequest& request, AxisPlan& plan);

}  // namespace headrace
