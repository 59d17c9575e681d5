// The plans of both axes of each picture: which sources make an output, and what they weigh, in
// 16384ths as the CPU has them (core/resample/taps.hpp).
#pragma once

#include "core/resample/taps.hpp"
#include "gpu/device.hpp"
#include "gpu/layout.hpp"

namespace headrace::gpu {

inline constexpr uint32_t kAxisThreads = 128;
// Room for the weights of an output before those that weigh nothing are left out.
inline constexpr uint32_t kMostTaps = kMaxFixedTaps;

// Of all pictures of a batch: spans by picture, axis and output; weights by picture, axis, tap and
// output, so that neighbours lie together.
struct AxisSpan {
  uint32_t start, count;
};

struct AxisPlans {
  AxisSpan* spans;
  int16_t* weights;
  uint32_t size;  // outputs of the longer axis
  uint32_t taps;  // most of any output

  HEADRACE_GPU_INLINE const AxisSpan* spans_of(uint32_t picture, uint32_t axis) const {
    return spans + (size_t{picture} * 2 + axis) * size;
  }
  HEADRACE_GPU_INLINE const int16_t* weights_of(uint32_t picture, uint32_t axis) const {
    return weights + (size_t{picture} * 2 + axis) * taps * size;
  }
};

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

// A layer is an axis. `filter` is a ResampleFilter that is not OpenCV's, as AxisKind where it does
// not depend on the picture; `area` becomes `area_linear` where a side grows.
HEADRACE_KERNEL(plan_axes, kAxisThreads)
(const uint8_t* blob, uint32_t filter, const double* lanczos, AxisPlans plans) {
  const Picture& picture = reinterpret_cast<const Picture*>(blob)[block_number()];
  const Axis& across = picture.axes[0];
  const Axis& down = picture.axes[1];
  const Axis& axis = picture.axes[block_layer()];
  auto kind = static_cast<AxisKind>(filter);
  if (kind == AxisKind::area && (across.length < across.size || down.length < down.size)) {
    kind = AxisKind::area_linear;
  }
  const AxisRequest request{kind,
                            static_cast<double>(axis.begin),
                            static_cast<double>(axis.length),
                            static_cast<double>(axis.origin),
                            axis.limit,
                            axis.size,
                            axis.is_mirrored != 0};
  const size_t plane = size_t{block_number()} * 2 + block_layer();
  for (uint32_t i = thread_number(); i < axis.size; i += thread_count()) {
    float weights[kMostTaps];
    const Taps taps = tidy_taps(taps_of(request, i, lanczos, weights), is_sharp(kind), weights);
    const uint32_t to = axis.is_mirrored ? axis.size - 1 - i : i;
    int16_t* out = plans.weights + plane * plans.taps * plans.size + to;
    quantize_weights(weights, taps.count, is_sharp(kind),
                     [&](size_t k, int16_t weight) { out[k * plans.size] = weight; });
    plans.spans[plane * plans.size + to] = {static_cast<uint32_t>(taps.start),
                                            static_cast<uint32_t>(taps.count)};
  }
}

}  // namespace headrace::gpu
