// The sources of one output along one axis, and what each of them weighs. Compiled for GPUs, too,
// which therefore have the same weights to the last bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/device.hpp"
#include "core/resample/positions.hpp"

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

// Their weights are beside them.
struct Taps {
  std::size_t start;
  std::size_t count;
};

// The functors that follow give the taps of one output; what is the same for all of them is made
// once.

// Every source by how much of it lies under the output.
class AreaTaps {
 public:
  HEADRACE_DEVICE AreaTaps(const AxisRequest& request, double scale) noexcept
      : begin_(request.begin),
        end_(std::min(request.begin + request.length, static_cast<double>(request.limit))),
        scale_(scale),
        limit_(request.limit) {}

  HEADRACE_DEVICE Taps operator()(std::size_t index, float* weights) const noexcept {
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
  HEADRACE_DEVICE explicit LinearTaps(const AxisRequest& request) noexcept
      : begin_(cut(request.begin)),
        size_(cut(request.length)),
        inverse_(static_cast<double>(request.out_size) / request.length),
        // Its arithmetic too: another rounding would name the neighbour where a product is whole.
        step_(1.0 / inverse_) {}

  HEADRACE_DEVICE Taps operator()(std::size_t index, float* weights) const noexcept {
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

struct TriangleWeight {
  HEADRACE_DEVICE double operator()(double distance) const noexcept {
    return std::max(0.0, 1.0 - distance);
  }
};

// With a = -0.5.
struct CubicWeight {
  HEADRACE_DEVICE double operator()(double distance) const noexcept {
    const double x = distance;
    if (x < 1) return (1.5 * x - 2.5) * x * x + 1;
    return x < 2 ? (((x - 5) * x + 8) * x - 4) * -0.5 : 0;
  }
};

inline constexpr std::size_t kLanczosLobes = 3;
inline constexpr std::size_t kLanczosSteps = 1024;
inline constexpr std::size_t kLanczosSize = kLanczosLobes * kLanczosSteps + 1;

// Two sines for each tap would take longer than the pixels do. Between the entries of a table of
// kLanczosSize, straight lines are right to 1e-6.
struct LanczosWeight {
  const double* values;

  HEADRACE_DEVICE double operator()(double distance) const noexcept {
    if (distance >= static_cast<double>(kLanczosLobes)) return 0;
    const double position = distance * static_cast<double>(kLanczosSteps);
    const std::size_t i = cut(position);
    const double share = position - static_cast<double>(i);
    return values[i] + share * (values[i + 1] - values[i]);
  }
};

// Pillow's arithmetic. The weight of a source falls with its distance from the centre, in sources
// where the side does not shrink, in outputs where it does.
template <typename Weight>
class KernelTaps {
 public:
  HEADRACE_DEVICE KernelTaps(const AxisRequest& request, double scale, double support,
                             Weight weight) noexcept
      : begin_(request.begin),
        scale_(scale),
        reach_(support * std::max(scale, 1.0)),
        slope_(1.0 / std::max(scale, 1.0)),
        limit_(request.limit),
        weight_(weight) {}

  HEADRACE_DEVICE Taps operator()(std::size_t index, float* weights) const noexcept {
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

// That one output can have, before those that weigh nothing are left out.
[[nodiscard]] inline std::size_t most_taps(AxisKind kind, double scale) noexcept {
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
HEADRACE_DEVICE inline Taps tidy_taps(Taps taps, bool is_signed, float* weights) noexcept {
  const auto counts = [is_signed](float weight) { return is_signed ? weight != 0 : weight > 0; };
  while (taps.count > 1 && !counts(weights[taps.count - 1])) --taps.count;
  float sum = 0;
  for (std::size_t k = 0; k < taps.count; ++k) sum += weights[k];
  const float inverse = 1 / sum;
  for (std::size_t k = 0; k < taps.count; ++k) weights[k] *= inverse;
  return taps;
}

inline constexpr int kFixedWeightOne = 1 << 14;
// Above this, weights of 14 bits would be too coarse.
inline constexpr std::size_t kMaxFixedTaps = 32;

// Weights in 16384ths that sum to one. Each is the step of the rounded running sum, so that errors
// do not add up. Where no weight is negative, none becomes so by rounding. out(k, weight) takes
// them.
template <typename Out>
HEADRACE_DEVICE inline void quantize_weights(const float* weights, std::size_t count,
                                             bool is_signed, Out&& out) noexcept {
  float sum = 0;
  int before = 0;
  for (std::size_t k = 0; k + 1 < count; ++k) {
    sum += weights[k];
    const float scaled = sum * static_cast<float>(kFixedWeightOne) + 0.5F;
    // std::floor is a call where the compiler may not count on SSE4.
    const int towards_zero = static_cast<int>(scaled);
    int now = towards_zero - (scaled < static_cast<float>(towards_zero) ? 1 : 0);
    if (!is_signed) now = std::clamp(now, before, int{kFixedWeightOne});
    out(k, static_cast<std::int16_t>(now - before));
    before = now;
  }
  out(count - 1, static_cast<std::int16_t>(kFixedWeightOne - before));
}

// Positions add up, as in Pillow: another rounding would name the neighbour where one is whole.
class NearestTaps {
 public:
  HEADRACE_DEVICE NearestTaps(const AxisRequest& request, double scale) noexcept
      : origin_(cut(request.origin)),
        limit_(request.limit),
        scale_(scale),
        position_(request.origin + request.begin + scale * 0.5) {}

  // Of the current output.
  [[nodiscard]] HEADRACE_DEVICE std::size_t start() const noexcept {
    return std::min(cut(position_) - origin_, limit_ - 1);
  }
  HEADRACE_DEVICE void advance() noexcept { position_ += scale_; }

 private:
  std::size_t origin_;
  std::size_t limit_;
  double scale_;
  double position_;
};

}  // namespace headrace
