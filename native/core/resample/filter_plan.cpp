#include "core/resample/filter_plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <numbers>

namespace headrace {
namespace {

double lanczos_at(std::size_t step) noexcept {
  if (step % kLanczosSteps == 0) return step == 0 ? 1 : 0;
  const double x =
      std::numbers::pi * static_cast<double>(step) / static_cast<double>(kLanczosSteps);
  const double third = x / static_cast<double>(kLanczosLobes);
  return std::sin(x) / x * (std::sin(third) / third);
}

template <typename TapsOf>
void plan_outputs(const AxisRequest& request, const TapsOf& taps_of, AxisPlan& plan) noexcept {
  for (std::size_t i = 0; i < request.out_size; ++i) {
    const std::size_t to = request.is_mirrored ? request.out_size - 1 - i : i;
    float* weights = plan.weights.data() + to * plan.stride;
    const Taps taps = tidy_taps(taps_of(i, weights), is_sharp(request.kind), weights);
    std::fill(weights + taps.count, weights + plan.stride, 0.0F);
    plan.starts[to] = static_cast<std::uint32_t>(taps.start);
    plan.counts[to] = static_cast<std::uint32_t>(taps.count);
    plan.taps = std::max(plan.taps, taps.count);
  }
}

void plan_nearest(const AxisRequest& request, double scale, AxisPlan& plan) noexcept {
  NearestTaps taps(request, scale);
  plan.taps = 1;
  for (std::size_t i = 0; i < request.out_size; ++i, taps.advance()) {
    const std::size_t to = request.is_mirrored ? request.out_size - 1 - i : i;
    plan.starts[to] = static_cast<std::uint32_t>(taps.start());
    plan.counts[to] = 1;
    plan.weights[to] = 1;
  }
}

}  // namespace

AxisKind axis_kind_of(ResampleFilter filter, bool is_growing) noexcept {
  switch (filter) {
    case ResampleFilter::bilinear:
      return AxisKind::triangle;
    case ResampleFilter::bicubic:
      return AxisKind::cubic;
    case ResampleFilter::lanczos:
      return AxisKind::lanczos;
    case ResampleFilter::nearest:
      return AxisKind::nearest;
    case ResampleFilter::area:
    case ResampleFilter::opencv_area:
      break;
  }
  return is_growing ? AxisKind::area_linear : AxisKind::area;
}

const double* lanczos_values() noexcept {
  static const auto values = [] {
    std::array<double, kLanczosSize> table{};
    for (std::size_t i = 0; i < kLanczosSize; ++i) table[i] = lanczos_at(i);
    return table;
  }();
  return values.data();
}

void plan_axis(const AxisRequest& request, AxisPlan& plan) {
  const double scale = request.length / static_cast<double>(request.out_size);
  plan.taps = 0;
  plan.stride = most_taps(request.kind, scale);
  plan.starts.resize(request.out_size);
  plan.counts.resize(request.out_size);
  plan.weights.resize(request.out_size * plan.stride);
  switch (request.kind) {
    case AxisKind::area:
      return plan_outputs(request, AreaTaps(request, scale), plan);
    case AxisKind::area_linear:
      return plan_outputs(request, LinearTaps(request), plan);
    case AxisKind::triangle:
      return plan_outputs(request, KernelTaps(request, scale, 1, TriangleWeight{}), plan);
    case AxisKind::cubic:
      return plan_outputs(request, KernelTaps(request, scale, 2, CubicWeight{}), plan);
    case AxisKind::lanczos:
      return plan_outputs(request, KernelTaps(request, scale, 3, LanczosWeight{lanczos_values()}),
                          plan);
    case AxisKind::nearest:
      return plan_nearest(request, scale, plan);
  }
}

}  // namespace headrace
