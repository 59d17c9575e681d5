#include "core/resample_plan.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace penstock {
namespace {

// A source touched by less than this share is left out, as OpenCV does.
constexpr double kNegligible = 1e-3;

// The sources of one output; `weights` has room for the plan's stride.
struct Taps {
  std::size_t start;
  std::size_t count;
};

// Positions are not negative: cutting is rounding down.
std::size_t cut(double position) noexcept { return static_cast<std::size_t>(position); }

// Every source by how much of it lies under the output.
Taps area_taps(const AxisRequest& request, double scale, std::size_t index,
               float* weights) noexcept {
  const double a = request.begin + static_cast<double>(index) * scale;
  const double b =
      std::min({a + scale, request.begin + request.length, static_cast<double>(request.limit)});
  std::size_t first = std::min(cut(a), request.limit - 1);
  std::size_t last = cut(b);  // not included, unless a part of it counts
  if (b - static_cast<double>(last) > kNegligible) ++last;
  if (static_cast<double>(first + 1) - a <= kNegligible && first + 1 < last) ++first;
  last = std::max(last, first + 1);
  for (std::size_t k = first; k < last; ++k) {
    const double begin = std::max(a, static_cast<double>(k));
    const double end = std::min(b, static_cast<double>(k + 1));
    weights[k - first] = static_cast<float>(end - begin);
  }
  return {first, last - first};
}

// OpenCV's coefficients for INTER_AREA where a side grows; the region has whole pixels.
Taps linear_taps(const AxisRequest& request, std::size_t index, float* weights) noexcept {
  const auto size = cut(request.length);
  const double inverse = static_cast<double>(request.out_size) / request.length;
  // Its arithmetic too: another rounding would name the neighbour where a product is whole.
  std::size_t source = cut(static_cast<double>(index) * (1.0 / inverse));
  auto share = static_cast<float>(static_cast<double>(index + 1) -
                                  static_cast<double>(source + 1) * inverse);
  share = share <= 0 ? 0 : share - static_cast<float>(static_cast<int>(share));
  if (source + 1 >= size) {
    source = size - 1;
    share = 0;
  }
  weights[0] = 1 - share;
  weights[1] = share;
  return {cut(request.begin) + source, share > 0 ? std::size_t{2} : std::size_t{1}};
}

// Pillow's arithmetic.
Taps triangle_taps(const AxisRequest& request, double scale, std::size_t index,
                   float* weights) noexcept {
  const double support = std::max(scale, 1.0);
  const double center = request.begin + (static_cast<double>(index) + 0.5) * scale;
  const std::size_t last = std::min(cut(center + support + 0.5), request.limit);
  const std::size_t first = std::min(cut(std::max(center - support + 0.5, 0.0)), last - 1);
  const double slope = 1.0 / support;
  for (std::size_t k = first; k < last; ++k) {
    const double distance = std::abs(static_cast<double>(k) - center + 0.5) * slope;
    weights[k - first] = static_cast<float>(std::max(0.0, 1.0 - distance));
  }
  return {first, last - first};
}

std::size_t most_taps(AxisKind kind, double scale) noexcept {
  switch (kind) {
    case AxisKind::area:
      return cut(scale) + 3;
    case AxisKind::area_linear:
      return 2;
    case AxisKind::triangle:
      break;
  }
  return 2 * cut(std::ceil(std::max(scale, 1.0))) + 2;
}

Taps taps_of(const AxisRequest& request, double scale, std::size_t index, float* weights) noexcept {
  switch (request.kind) {
    case AxisKind::area:
      return area_taps(request, scale, index, weights);
    case AxisKind::area_linear:
      return linear_taps(request, index, weights);
    case AxisKind::triangle:
      break;
  }
  return triangle_taps(request, scale, index, weights);
}

// Sources at either end that weigh nothing are left out; what remains sums to one.
Taps tidy(Taps taps, std::size_t stride, float* weights) noexcept {
  while (taps.count > 1 && weights[taps.count - 1] <= 0) --taps.count;
  float sum = 0;
  for (std::size_t k = 0; k < taps.count; ++k) sum += weights[k];
  const float inverse = 1 / sum;
  for (std::size_t k = 0; k < taps.count; ++k) weights[k] *= inverse;
  std::fill(weights + taps.count, weights + stride, 0.0F);
  return taps;
}

}  // namespace

void plan_axis(const AxisRequest& request, AxisPlan& plan) {
  const double scale = request.length / static_cast<double>(request.out_size);
  plan.taps = 0;
  plan.stride = most_taps(request.kind, scale);
  plan.starts.resize(request.out_size);
  plan.counts.resize(request.out_size);
  plan.weights.resize(request.out_size * plan.stride);
  for (std::size_t i = 0; i < request.out_size; ++i) {
    const std::size_t to = request.is_mirrored ? request.out_size - 1 - i : i;
    float* weights = plan.weights.data() + to * plan.stride;
    const Taps taps = tidy(taps_of(request, scale, i, weights), plan.stride, weights);
    plan.starts[to] = static_cast<std::uint32_t>(taps.start);
    plan.counts[to] = static_cast<std::uint32_t>(taps.count);
    plan.taps = std::max(plan.taps, taps.count);
  }
}

}  // namespace penstock
