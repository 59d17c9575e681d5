#include "core/resample/filter_plan.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <numbers>

#include "core/resample/positions.hpp"

namespace headrace {
namespace {

// The sources of one output; `weights` has room for the plan's stride.
struct Taps {
  std::size_t start;
  std::size_t count;
};

// The functors that follow give the taps of one output; what is the same for all of them is made
// once.

// Every source by how much of it lies under the output.
class AreaTaps {
 public:
  AreaTaps(const AxisRequest& request, double scale) noexcept
      : begin_(request.begin),
        end_(std::min(request.begin + request.length, static_cast<double>(request.limit))),
        scale_(scale),
        limit_(request.limit) {}

  Taps operator()(std::size_t index, float* weights) const noexcept {
    const double a = begin_ + static_cast<double>(index) * scale_;
    const double b = std::min(a + scale_, end_);
    std::size_t first = std::min(cut(a), limit_ - 1);
    std::size_t last = cut(b);  // not included, unless a part of it counts
    if (b - static_cast<double>(last) > kNegligible) ++last;
    if (static_cast<double>(first + 1) - a <= kNegligible && first + 1 < last) ++first;
    last = std::max(last, first + 1);
    for (std::size_t k = first; k < last; ++k) {
      const double from = std::max(a, static_cast<double>(k));
      const double to = std::min(b, static_cast<double>(k + 1));
      weights[k - first] = static_cast<float>(to - from);
    }
    return {first, last - first};
  }

 private:
  double begin_;
  double end_;
  double scale_;
  std::size_t limit_;
};

// OpenCV's coefficients for INTER_AREA where a side grows; the region has whole pixels.
class LinearTaps {
 public:
  explicit LinearTaps(const AxisRequest& request) noexcept
      : begin_(cut(request.begin)),
        size_(cut(request.length)),
        inverse_(static_cast<double>(request.out_size) / request.length),
        // Its arithmetic too: another rounding would name the neighbour where a product is whole.
        step_(1.0 / inverse_) {}

  Taps operator()(std::size_t index, float* weights) const noexcept {
    std::size_t source = cut(static_cast<double>(index) * step_);
    auto share = static_cast<float>(static_cast<double>(index + 1) -
                                    static_cast<double>(source + 1) * inverse_);
    share = share <= 0 ? 0 : share - static_cast<float>(static_cast<int>(share));
    if (source + 1 >= size_) {
      source = size_ - 1;
      share = 0;
    }
    weights[0] = 1 - share;
    weights[1] = share;
    return {begin_ + source, share > 0 ? std::size_t{2} : std::size_t{1}};
  }

 private:
  std::size_t begin_;
  std::size_t size_;
  double inverse_;
  double step_;
};

double triangle(double distance) noexcept { return std::max(0.0, 1.0 - distance); }

// With a = -0.5.
double cubic(double distance) noexcept {
  const double x = distance;
  if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
  return x < 2 ? (((x - 5) * x + 8) * x - 4) * -0.5 : 0;
}

// Two sines for each tap would take longer than the pixels do. Between the entries, straight lines
// are right to 1e-6.
class LanczosTable {
 public:
  LanczosTable() noexcept {
    for (std::size_t i = 0; i < kSize; ++i) values_[i] = exact(i);
  }

  [[nodiscard]] double operator()(double distance) const noexcept {
    if (distance >= static_cast<double>(kLobes)) return 0;
    const double position = distance * static_cast<double>(kSteps);
    const std::size_t i = cut(position);
    const double share = position - static_cast<double>(i);
    return values_[i] + share * (values_[i + 1] - values_[i]);
  }

 private:
  static constexpr std::size_t kLobes = 3;
  static constexpr std::size_t kSteps = 1024;
  static constexpr std::size_t kSize = kLobes * kSteps + 1;

  static double exact(std::size_t step) noexcept {
    if (step % kSteps == 0) return step == 0 ? 1 : 0;
    const double x = std::numbers::pi * static_cast<double>(step) / static_cast<double>(kSteps);
    const double third = x / static_cast<double>(kLobes);
    return std::sin(x) / x * (std::sin(third) / third);
  }

  std::array<double, kSize> values_;
};

const LanczosTable& lanczos_table() noexcept {
  static const LanczosTable table;
  return table;
}

// Pillow's arithmetic. The weight of a source falls with its distance from the centre, in sources
// where the side does not shrink, in outputs where it does.
template <typename Weight>
class KernelTaps {
 public:
  KernelTaps(const AxisRequest& request, double scale, double support, Weight weight) noexcept
      : begin_(request.begin),
        scale_(scale),
        reach_(support * std::max(scale, 1.0)),
        slope_(1.0 / std::max(scale, 1.0)),
        limit_(request.limit),
        weight_(weight) {}

  Taps operator()(std::size_t index, float* weights) const noexcept {
    const double center = begin_ + (static_cast<double>(index) + 0.5) * scale_;
    const std::size_t last = std::min(cut(center + reach_ + 0.5), limit_);
    const std::size_t first = std::min(cut(std::max(center - reach_ + 0.5, 0.0)), last - 1);
    for (std::size_t k = first; k < last; ++k) {
      const double distance = std::abs(static_cast<double>(k) - center + 0.5) * slope_;
      weights[k - first] = static_cast<float>(weight_(distance));
    }
    return {first, last - first};
  }

 private:
  double begin_;
  double scale_;
  double reach_;
  double slope_;
  std::size_t limit_;
  Weight weight_;
};

std::size_t most_taps(AxisKind kind, double scale) noexcept {
  switch (kind) {
    case AxisKind::area:
      return cut(scale) + 3;
    case AxisKind::area_linear:
      return 2;
    case AxisKind::nearest:
      return 1;
    case AxisKind::triangle:
    case AxisKind::cubic:
    case AxisKind::lanczos:
      break;
  }
  const double support = kind == AxisKind::triangle ? 1 : kind == AxisKind::cubic ? 2 : 3;
  return 2 * cut(std::ceil(support * std::max(scale, 1.0))) + 2;
}

// Sources at the end that weigh nothing are left out; what remains sums to one.
Taps tidy(Taps taps, bool is_signed, std::size_t stride, float* weights) noexcept {
  const auto counts = [is_signed](float weight) { return is_signed ? weight != 0 : weight > 0; };
  while (taps.count > 1 && !counts(weights[taps.count - 1])) --taps.count;
  float sum = 0;
  for (std::size_t k = 0; k < taps.count; ++k) sum += weights[k];
  const float inverse = 1 / sum;
  for (std::size_t k = 0; k < taps.count; ++k) weights[k] *= inverse;
  std::fill(weights + taps.count, weights + stride, 0.0F);
  return taps;
}

template <typename TapsOf>
void plan_outputs(const AxisRequest& request, const TapsOf& taps_of, AxisPlan& plan) noexcept {
  for (std::size_t i = 0; i < request.out_size; ++i) {
    const std::size_t to = request.is_mirrored ? request.out_size - 1 - i : i;
    float* weights = plan.weights.data() + to * plan.stride;
    const Taps taps = tidy(taps_of(i, weights), is_sharp(request.kind), plan.stride, weights);
    plan.starts[to] = static_cast<std::uint32_t>(taps.start);
    plan.counts[to] = static_cast<std::uint32_t>(taps.count);
    plan.taps = std::max(plan.taps, taps.count);
  }
}

// Positions add up, as in Pillow: another rounding would name the neighbour where one is whole.
void plan_nearest(const AxisRequest& request, double scale, AxisPlan& plan) noexcept {
  const std::size_t origin = cut(request.origin);
  double position = request.origin + request.begin + scale * 0.5;
  plan.taps = 1;
  for (std::size_t i = 0; i < request.out_size; ++i, position += scale) {
    const std::size_t to = request.is_mirrored ? request.out_size - 1 - i : i;
    plan.starts[to] =
        static_cast<std::uint32_t>(std::min(cut(position) - origin, request.limit - 1));
    plan.counts[to] = 1;
    plan.weights[to] = 1;
  }
}

}  // namespace

void plan_axis(const AxisRequest& request, AxisPlan& plan) {
  const double scale = request.length / static_cast<double>(request.out_size);
  plan.taps = 0;
  plan.stride = most_taps(request.kind, scale);
  plan.starts.resize(request.out_size);
  plan.counts.resize(request.out_size);
  plan.weights.resize(request.out_size * plan.stride);
  // Functions as types, so that they are inlined.
  const auto by_triangle = [](double distance) noexcept { return triangle(distance); };
  const auto by_cubic = [](double distance) noexcept { return cubic(distance); };
  const auto by_lanczos = [&table = lanczos_table()](double distance) noexcept {
    return table(distance);
  };
  switch (request.kind) {
    case AxisKind::area:
      return plan_outputs(request, AreaTaps(request, scale), plan);
    case AxisKind::area_linear:
      return plan_outputs(request, LinearTaps(request), plan);
    case AxisKind::triangle:
      return plan_outputs(request, KernelTaps(request, scale, 1, by_triangle), plan);
    case AxisKind::cubic:
      return plan_outputs(request, KernelTaps(request, scale, 2, by_cubic), plan);
    case AxisKind::lanczos:
      return plan_outputs(request, KernelTaps(request, scale, 3, by_lanczos), plan);
    case AxisKind::nearest:
      return plan_nearest(request, scale, plan);
  }
}

}  // namespace headrace
