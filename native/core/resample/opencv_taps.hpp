// The sources of one output along one axis as OpenCV's INTER_AREA has them, with its arithmetic.
// Compiled for GPUs, too, which therefore have the same weights to the last bit.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "core/device.hpp"
#include "core/resample/taps.hpp"

namespace headrace {

// OpenCV's, which is not always the quotient of the sizes.
struct OpenCvScale {
  HEADRACE_DEVICE OpenCvScale(std::size_t from, std::size_t to) noexcept
      : inverse(static_cast<double>(to) / static_cast<double>(from)), factor(1.0 / inverse) {}

  // Decided by the rounded factor: 49 to 1 is none for OpenCV.
  [[nodiscard]] bool is_whole() const noexcept {
    return std::abs(factor - std::nearbyint(factor)) < 0x1p-52;
  }
  // That an output can have where the factor is not whole.
  [[nodiscard]] std::size_t most_taps() const noexcept { return cut(factor) + 3; }

  double inverse;
  double factor;
};

// What lies under an output.
HEADRACE_DEVICE inline Taps opencv_cell(std::size_t index, const OpenCvScale& scale,
                                        std::size_t from, float* weights) noexcept {
  const double begin = static_cast<double>(index) * scale.factor;
  const double end = begin + scale.factor;
  const double width = std::min(scale.factor, static_cast<double>(from) - begin);
  const std::size_t last = std::min(cut(end), from - 1);
  const std::size_t below = cut(begin);
  const std::size_t rounded_up = below + (static_cast<double>(below) < begin ? 1 : 0);
  const std::size_t whole = std::min(rounded_up, last);
  const double head = static_cast<double>(whole) - begin;
  const double tail = end - static_cast<double>(last);
  std::size_t count = 0;
  const bool has_head = head > kNegligible;
  if (has_head) weights[count++] = static_cast<float>(head / width);
  for (std::size_t k = whole; k < last; ++k) weights[count++] = static_cast<float>(1.0 / width);
  if (tail > kNegligible) {
    weights[count++] = static_cast<float>(std::min(std::min(tail, 1.0), width) / width);
  }
  if (count == 0) weights[count++] = 0;
  return {has_head ? whole - 1 : whole, count};
}

// Of the weights between two neighbours.
inline constexpr float kNeighbourWeightOne = 1 << 11;

struct OpenCvNeighbours {
  std::size_t start;
  std::size_t count;
  std::uint32_t weights[2];  // in 2048ths
};

// Where a side grows. The last source has no neighbour: along rows it stands alone, down columns it
// is its own.
HEADRACE_DEVICE inline OpenCvNeighbours opencv_neighbours(std::size_t index,
                                                          const OpenCvScale& scale,
                                                          std::size_t from, bool is_row) noexcept {
  const std::size_t source = std::min(cut(static_cast<double>(index) * scale.factor), from - 1);
  auto share = static_cast<float>(static_cast<double>(index + 1) -
                                  static_cast<double>(source + 1) * scale.inverse);
  share = share <= 0 ? 0 : share - static_cast<float>(static_cast<int>(share));
  const bool has_neighbour = source + 1 < from;
  if (is_row && !has_neighbour) share = 0;
  return {source,
          has_neighbour ? std::size_t{2} : std::size_t{1},
          {static_cast<std::uint32_t>(std::lrintf((1 - share) * kNeighbourWeightOne)),
           static_cast<std::uint32_t>(std::lrintf(share * kNeighbourWeightOne))}};
}

}  // namespace headrace
