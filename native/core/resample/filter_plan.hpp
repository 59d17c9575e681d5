// Filters as weights along one axis.
#pragma once

#include <cstddef>

#include "core/resample/taps.hpp"
#include "headrace/resample/resample.hpp"

namespace headrace {

// `is_growing`: one of the sides does.
[[nodiscard]] AxisKind axis_kind_of(ResampleFilter filter, bool is_growing) noexcept;

// A table for LanczosWeight.
[[nodiscard]] const double* lanczos_values() noexcept;

// Throws std::bad_alloc.
void plan_axis(const AxisRequest& request, AxisPlan& plan);

}  // namespace headrace
