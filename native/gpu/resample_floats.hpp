// Resampling in single precision as the CPU has it: where filters have many taps, and OpenCV's area
// filter. Rare, or cheap by themselves: a row of the output is made of all its source rows before
// the next one begins, so that the memory does not depend on how many they are.
#pragma once

#include "gpu/resample.hpp"

namespace headrace::gpu {

struct FloatPixel {
  float v[3];
};

HEADRACE_DEVICE inline size_t float_bytes(const Picture& picture, uint32_t support,
                                          uint32_t first_column, uint32_t columns) {
  const size_t stride = row_stride_of(sources_of(picture.axes[0], support, first_column, columns));
  return stride * (kRowsAtOnce * sizeof(uint32_t) + sizeof(FloatPixel)) +
         columns * (sizeof(uint32_t) + sizeof(FloatPixel));
}

HEADRACE_GPU_INLINE uint32_t pixel_of(const FloatPixel& pixel) {
  return pack_levels(round_off(pixel.v[0]), round_off(pixel.v[1]), round_off(pixel.v[2]), 0);
}

HEADRACE_GPU_INLINE FloatPixel floats_of(uint32_t pixel) {
  return {{static_cast<float>(byte_of(pixel, 0)), static_cast<float>(byte_of(pixel, 1)),
           static_cast<float>(byte_of(pixel, 2))}};
}

HEADRACE_GPU_INLINE void add_times(FloatPixel& sum, const FloatPixel& pixel, float weight) {
  HEADRACE_UNROLL
  for (uint32_t c = 0; c < 3; ++c) sum.v[c] += weight * pixel.v[c];
}

// A pixel between two neighbours, in 128ths, cut; the last one has no neighbour and needs none.
HEADRACE_GPU_INLINE FloatPixel between(const uint32_t* from, float first, float second) {
  const uint32_t a = from[0], b = second == 0 ? a : from[1];
  FloatPixel result;
  HEADRACE_UNROLL
  for (uint32_t c = 0; c < 3; ++c) {
    const int32_t sum =
        static_cast<int32_t>(first) * byte_of(a, c) + static_cast<int32_t>(second) * byte_of(b, c);
    result.v[c] = static_cast<float>(sum >> 4);
  }
  return result;
}

// Each product is cut to a quarter of a level.
HEADRACE_GPU_INLINE void add_quarters(FloatPixel& sum, const FloatPixel& pixel, float weight) {
  HEADRACE_UNROLL
  for (uint32_t c = 0; c < 3; ++c) {
    const int32_t product = static_cast<int32_t>(pixel.v[c]) * static_cast<int32_t>(weight);
    sum.v[c] += static_cast<float>(product >> 16);
  }
}

struct FloatPart {
  const PartView& view;
  uint32_t way;
  bool is_sharp;

  HEADRACE_GPU_INLINE float row_weight(uint32_t k, uint32_t y) const {
    return float_of(view.row_weight(k, y));
  }
  HEADRACE_GPU_INLINE float column_weight(uint32_t k, uint32_t x) const {
    return float_of(view.column_weight(k, x));
  }

  // Column x of the part, of one row of sources.
  HEADRACE_GPU_INLINE FloatPixel reduce(const uint32_t* row, uint32_t x) const {
    const AxisSpan span = view.column(x);
    const uint32_t* const from = row + (span.start - view.sources.begin);
    if (way == kOpenCvNeighbours) return between(from, column_weight(0, x), column_weight(1, x));
    FloatPixel sum{};
    for (uint32_t k = 0; k < span.count; ++k) {
      add_times(sum, floats_of(from[k]), column_weight(k, x));
    }
    return is_sharp ? floats_of(pixel_of(sum)) : sum;  // Pillow's filters round between the passes
  }

  HEADRACE_GPU_INLINE void add_row(FloatPixel& sum, const FloatPixel& pixel, AxisSpan span,
                                   uint32_t k, uint32_t y) const {
    if (way != kOpenCvNeighbours) return add_times(sum, pixel, row_weight(k, y));
    add_quarters(sum, pixel, row_weight(k, y));
    if (span.count == 1) add_quarters(sum, pixel, row_weight(1, y));  // its own neighbour
  }

  HEADRACE_GPU_INLINE uint32_t finish(FloatPixel sum) const {
    if (way == kOpenCvNeighbours) {
      HEADRACE_UNROLL
      for (uint32_t c = 0; c < 3; ++c) {
        sum.v[c] = static_cast<float>((static_cast<int32_t>(sum.v[c]) + 2) >> 2);
      }
    }
    if (way == kOpenCvBoxes) {
      const uint32_t across = view.picture.axes[0].length / view.width;
      const uint32_t down = view.picture.axes[1].length / view.height;
      const float scale = 1.0F / static_cast<float>(across * down);
      const float bias = across == 2 && down == 2 ? 0.125F : 0;  // the middle is rounded up
      HEADRACE_UNROLL
      for (uint32_t c = 0; c < 3; ++c) sum.v[c] = sum.v[c] * scale + bias;
    }
    return pixel_of(sum);
  }
};

HEADRACE_KERNEL(resample_floats, kResampleThreads)(ResampleCall call) {
  const PartView view(call, block_number());
  const Part& part = view.part;
  const PixelSource source(call.blob, call.samples, view.picture, view.sources);
  const FloatPart floats{view, view.picture.way, view.picture.way == kFloats && call.is_sharp != 0};
  const bool is_rows_first = view.picture.way == kFloats && call.is_sharp == 0;
  const uint32_t stride = row_stride_of(view.sources), lead = source.lead();
  const uint32_t width = view.sources.end - view.sources.begin;
  const uint32_t sum_count = is_rows_first ? width : part.columns;
  auto* const pixels = shared_memory<uint32_t>();
  auto* const written = pixels + kRowsAtOnce * stride;
  auto* const sums = reinterpret_cast<FloatPixel*>(written + part.columns);
  for (uint32_t y = part.first_row; y < part.first_row + part.rows; ++y) {
    const AxisSpan span = view.row(y);
    for (uint32_t x = thread_number(); x < sum_count; x += thread_count()) sums[x] = {};
    for (uint32_t k = 0; k < span.count; k += kRowsAtOnce) {
      const uint32_t first = span.start + k, rows = lesser(kRowsAtOnce, span.count - k);
      source.convert(first, first + rows,
                     [&](uint32_t row) { return pixels + (row - first) * stride; });
      sync_threads();
      for (uint32_t x = thread_number(); x < sum_count; x += thread_count()) {
        FloatPixel sum = sums[x];
        for (uint32_t row = 0; row < rows; ++row) {
          const uint32_t* const from = pixels + row * stride + lead;
          floats.add_row(sum, is_rows_first ? floats_of(from[x]) : floats.reduce(from, x), span,
                         k + row, y);
        }
        sums[x] = sum;
      }
      sync_threads();
    }
    for (uint32_t x = thread_number(); x < part.columns; x += thread_count()) {
      FloatPixel sum = is_rows_first ? FloatPixel{} : sums[x];
      if (is_rows_first) {
        const AxisSpan across = view.column(x);
        const FloatPixel* const from = sums + (across.start - view.sources.begin);
        for (uint32_t k = 0; k < across.count; ++k) {
          add_times(sum, from[k], floats.column_weight(k, x));
        }
      }
      written[x] = floats.finish(sum);
    }
    sync_threads();
    write_rows(call.output, part.picture, view.left, view.top + y, part.columns, 1, written);
  }
}

}  // namespace headrace::gpu
