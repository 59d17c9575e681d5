// The plans of both axes of each picture: which sources make an output, and what they weigh, as the
// CPU has it (core/resample/taps.hpp, opencv_taps.hpp).
#pragma once

#include "core/resample/opencv_taps.hpp"
#include "core/resample/taps.hpp"
#include "gpu/device.hpp"
#include "gpu/layout.hpp"

namespace headrace::gpu {

inline constexpr uint32_t kAxisThreads = 128;
// Of one output, before those that weigh nothing are left out.
inline constexpr uint32_t kMostTaps = 128;

// Of all pictures of a batch: spans by picture, axis and output.
struct AxisSpan {
  uint32_t start, count;
};

// Words of weights that an axis needs. Of whole numbers, in 16384ths, a word has two: that of the
// next tap in its upper half, zero where there is none. Words of neighbouring outputs lie together.
HEADRACE_DEVICE inline size_t weight_words(bool is_whole, size_t taps, size_t outputs) {
  return (is_whole ? (taps + 1) / 2 : taps) * outputs;
}

struct AxisPlans {
  AxisSpan* spans;
  uint32_t* weights;
  uint32_t size;  // outputs of the longer axis

  HEADRACE_GPU_INLINE AxisSpan* spans_of(uint32_t picture, uint32_t axis) const {
    return spans + (size_t{picture} * 2 + axis) * size;
  }
  HEADRACE_GPU_INLINE uint32_t* weights_of(const Axis& axis) const {
    return weights + axis.weights;
  }
};

HEADRACE_GPU_INLINE AxisRequest request_of(const Axis& axis, AxisKind kind) {
  return {kind,
          static_cast<double>(axis.begin),
          static_cast<double>(axis.length),
          static_cast<double>(axis.origin),
          axis.limit,
          axis.size,
          axis.is_mirrored != 0};
}

HEADRACE_GPU_INLINE Taps taps_of(const AxisRequest& request, uint32_t i, const double* lanczos,
                                 float* weights) {
  const double scale = request.length / static_cast<double>(request.out_size);
  switch (request.kind) {
    case AxisKind::area:
      return AreaTaps(request, scale)(i, weights);
    case AxisKind::area_linear:
      return LinearTaps(request)(i, weights);
    case AxisKind::triangle:
      return KernelTaps(request, scale, 1, TriangleWeight{})(i, weights);
    case AxisKind::cubic:
      return KernelTaps(request, scale, 2, CubicWeight{})(i, weights);
    case AxisKind::lanczos:
      return KernelTaps(request, scale, 3, LanczosWeight{lanczos})(i, weights);
    case AxisKind::nearest:
      break;
  }
  NearestTaps nearest(request, scale);
  for (uint32_t k = 0; k < i; ++k) nearest.advance();
  weights[0] = 1;
  return {nearest.start(), 1};
}

// Weights between neighbours are whole numbers, which floats hold.
HEADRACE_GPU_INLINE Taps opencv_taps_of(uint32_t way, const Axis& axis, uint32_t i, bool is_row,
                                        float* weights) {
  const uint32_t factor = axis.length / axis.size;
  if (way == kOpenCvBoxes) {
    for (uint32_t k = 0; k < factor; ++k) weights[k] = 1;
    return {size_t{i} * factor, factor};
  }
  const OpenCvScale scale(axis.length, axis.size);
  if (way == kOpenCvCells) return opencv_cell(i, scale, axis.length, weights);
  const OpenCvNeighbours two = opencv_neighbours(i, scale, axis.length, is_row);
  weights[0] = static_cast<float>(two.weights[0]);
  weights[1] = static_cast<float>(two.weights[1]);
  return {two.start, two.count};
}

// A layer is an axis. `filter` is an AxisKind that does not depend on the picture: `area` becomes
// `area_linear` where a side grows. Of no meaning for OpenCV's ways.
HEADRACE_KERNEL(plan_axes, kAxisThreads)
(const uint8_t* blob, uint32_t filter, const double* lanczos, AxisPlans plans) {
  const Picture& picture = reinterpret_cast<const Picture*>(blob)[block_number()];
  if (picture.kind == kAbsent || picture.kind == kEmpty) return;
  const Axis& across = picture.axes[0];
  const Axis& down = picture.axes[1];
  const Axis axis = picture.axes[block_layer()];
  auto kind = static_cast<AxisKind>(filter);
  if (kind == AxisKind::area && (across.length < across.size || down.length < down.size)) {
    kind = AxisKind::area_linear;
  }
  const AxisRequest request = request_of(axis, kind);
  const uint32_t way = picture.way;
  AxisSpan* const spans = plans.spans_of(block_number(), block_layer());
  for (uint32_t i = thread_number(); i < axis.size; i += thread_count()) {
    float weights[kMostTaps];
    const bool is_opencv = way != kWholeNumbers && way != kFloats;
    const Taps taps =
        is_opencv ? opencv_taps_of(way, axis, i, block_layer() == 0, weights)
                  : tidy_taps(taps_of(request, i, lanczos, weights), is_sharp(kind), weights);
    const uint32_t to = axis.is_mirrored ? axis.size - 1 - i : i;
    uint32_t* const words = plans.weights_of(axis) + to;
    if (way == kWholeNumbers) {
      uint32_t low = 0;
      quantize_weights(weights, taps.count, is_sharp(kind), [&](size_t k, int16_t weight) {
        const uint32_t bits = static_cast<uint16_t>(weight);
        if (k % 2 != 0 || k + 1 == taps.count) {
          words[k / 2 * axis.size] = k % 2 != 0 ? low | bits << 16 : bits;
        }
        low = bits;
      });
    } else {
      const size_t count = way == kOpenCvNeighbours ? 2 : taps.count;
      for (size_t k = 0; k < count; ++k) words[k * axis.size] = bits_of(weights[k]);
    }
    spans[to] = {static_cast<uint32_t>(taps.start), static_cast<uint32_t>(taps.count)};
  }
}

}  // namespace headrace::gpu
