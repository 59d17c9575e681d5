// Samples to pixels to the pixels of the output, in whole numbers as the CPU has them: with the
// smooth filters rows are blended first and columns reduced then, with the sharp ones it is the
// other way round. A thread block makes the rows and columns of a Part; the rows that it needs stay
// in shared memory until the last output that uses them.
#pragma once

#include "gpu/axes.hpp"
#include "gpu/device.hpp"
#include "gpu/layout.hpp"
#include "gpu/output.hpp"
#include "gpu/samples.hpp"

namespace headrace::gpu {

inline constexpr uint32_t kResampleThreads = 256;
inline constexpr uint32_t kRowsAtOnce = 4;
inline constexpr int32_t kBlendShift = 7;    // 14 bits of weight, 7 of them kept
inline constexpr int32_t kReduceShift = 21;  // 7 bits kept, 14 bits of weight
inline constexpr int32_t kWhiteParts = 255 << kBlendShift;

struct Range {
  uint32_t begin, end;
};

// All sources that outputs `first` to `first + count - 1` can have, and perhaps some more.
HEADRACE_DEVICE inline Range sources_of(const Axis& axis, uint32_t support, uint32_t first,
                                        uint32_t count) {
  const uint64_t begin = axis.is_mirrored ? axis.size - first - count : first, end = begin + count;
  const uint64_t shrinking = axis.length / axis.size + 1;
  const uint64_t margin = support * shrinking + 1;
  const uint64_t low = axis.begin + begin * axis.length / axis.size;
  const uint64_t high = axis.begin + (end * axis.length + axis.size - 1) / axis.size + margin;
  return {static_cast<uint32_t>(low < margin ? 0 : low - margin),
          static_cast<uint32_t>(high < axis.limit ? high : axis.limit)};
}

// The most rows that `count` outputs one below the other can need.
HEADRACE_DEVICE inline uint32_t most_rows(const Axis& axis, uint32_t support, uint32_t count) {
  const uint64_t shrinking = axis.length / axis.size + 1;
  const uint64_t rows = (uint64_t{count} * axis.length + axis.size - 1) / axis.size + 1 +
                        2 * (support * shrinking + 1);
  return static_cast<uint32_t>(rows < axis.limit ? rows : axis.limit);
}

// Pixels are converted eight at a time, at multiples of eight of the planes.
HEADRACE_DEVICE inline uint32_t row_stride_of(const Range& columns) {
  return (columns.end - columns.begin + 14) / 8 * 8 + 8;
}

struct Parts {
  int16_t v[4];  // red, green, blue; of a level
};

HEADRACE_DEVICE inline size_t smooth_bytes(const Picture& picture, uint32_t support,
                                           uint32_t first_column, uint32_t columns) {
  const size_t stride = row_stride_of(sources_of(picture.axes[0], support, first_column, columns));
  return stride * (most_rows(picture.axes[1], support, kRowsAtOnce) * sizeof(uint32_t) +
                   kRowsAtOnce * sizeof(Parts));
}

HEADRACE_DEVICE inline size_t sharp_bytes(const Picture& picture, uint32_t support,
                                          uint32_t first_column, uint32_t columns) {
  const size_t stride = row_stride_of(sources_of(picture.axes[0], support, first_column, columns));
  return stride * kRowsAtOnce * sizeof(uint32_t) +
         size_t{most_rows(picture.axes[1], support, kRowsAtOnce)} * columns * sizeof(Parts);
}

// Rows `begin` to `end - 1` of the sources as pixels, to place(row): what the columns begin with
// lies at `lead_of`.
struct PixelSource {
  const uint8_t* blob;
  const uint8_t* samples;
  const Picture& picture;
  Range columns;

  HEADRACE_GPU_INLINE uint32_t aligned_begin() const {
    return (picture.left + columns.begin) & ~7U;
  }
  HEADRACE_GPU_INLINE uint32_t lead() const {
    return picture.left + columns.begin - aligned_begin();
  }

  template <typename Place>
  HEADRACE_GPU_INLINE void convert(uint32_t begin, uint32_t end, const Place& place) const {
    const uint32_t first = aligned_begin();
    const uint32_t groups = (picture.left + columns.end - first + 7) / 8;
    for (uint32_t i = thread_number(); i < groups * (end - begin); i += thread_count()) {
      const uint32_t row = begin + i / groups, x = i % groups * 8;
      uint32_t pixels[8];
      if (picture.kind == kJpeg) {
        jpeg_pixels(picture, samples, first + x, picture.top + row, pixels);
      } else {
        raw_pixels(blob, picture, first + x, picture.top + row, picture.left + columns.end, pixels);
      }
      uint32_t* to = place(row) + x;
      HEADRACE_UNROLL
      for (uint32_t k = 0; k < 8; ++k) to[k] = pixels[k];
    }
  }
};

struct Sum {
  int32_t v[3];

  HEADRACE_GPU_INLINE explicit Sum(int32_t shift)
      : v{1 << (shift - 1), 1 << (shift - 1), 1 << (shift - 1)} {}
  HEADRACE_GPU_INLINE void add(uint32_t pixel, int32_t weight) {
    HEADRACE_UNROLL
    for (uint32_t c = 0; c < 3; ++c) v[c] += weight * byte_of(pixel, c);
  }
  HEADRACE_GPU_INLINE void add(const Parts& parts, int32_t weight) {
    HEADRACE_UNROLL
    for (uint32_t c = 0; c < 3; ++c) v[c] += weight * parts.v[c];
  }
  HEADRACE_GPU_INLINE uint32_t pixel() const {
    return pack_levels(v[0] >> kReduceShift, v[1] >> kReduceShift, v[2] >> kReduceShift, 0);
  }
  HEADRACE_GPU_INLINE Parts parts() const {
    Parts parts{};
    HEADRACE_UNROLL
    for (uint32_t c = 0; c < 3; ++c) {
      const int32_t part = v[c] >> kBlendShift;
      parts.v[c] = static_cast<int16_t>(part < 0 ? 0 : part > kWhiteParts ? kWhiteParts : part);
    }
    return parts;
  }
};

struct ResampleCall {
  const uint8_t* blob;
  const uint8_t* samples;
  const Part* parts;
  AxisPlans plans;
  uint32_t support;
  Output output;
};

// What the two ways share: one part of one picture.
struct PartView {
  const Part part;
  const Picture& picture;
  const AxisSpan* columns;
  const AxisSpan* rows;
  const int16_t* column_weights;
  const int16_t* row_weights;
  const Range sources;
  const uint32_t size;

  HEADRACE_GPU_INLINE PartView(const ResampleCall& call, uint32_t number)
      : part(call.parts[number]),
        picture(reinterpret_cast<const Picture*>(call.blob)[part.picture]),
        columns(call.plans.spans_of(part.picture, 0)),
        rows(call.plans.spans_of(part.picture, 1)),
        column_weights(call.plans.weights_of(part.picture, 0)),
        row_weights(call.plans.weights_of(part.picture, 1)),
        sources(sources_of(picture.axes[0], call.support, part.first_column, part.columns)),
        size(call.plans.size) {}

  HEADRACE_GPU_INLINE void write(const ResampleCall& call, uint32_t x, uint32_t y,
                                 uint32_t pixel) const {
    write_pixel(call.output, part.picture, picture.place_left + x, picture.place_top + y, pixel);
  }
};

HEADRACE_KERNEL(resample_smooth, kResampleThreads)(ResampleCall call) {
  const PartView view(call, block_number());
  const Part& part = view.part;
  const Axis& down = view.picture.axes[1];
  const PixelSource source{call.blob, call.samples, view.picture, view.sources};
  const uint32_t stride = row_stride_of(view.sources), lead = source.lead();
  const uint32_t width = view.sources.end - view.sources.begin;
  const uint32_t ring_rows = most_rows(down, call.support, kRowsAtOnce);
  auto* const ring = shared_memory<uint32_t>();
  auto* const work = reinterpret_cast<Parts*>(ring + ring_rows * stride);
  const auto row_at = [&](uint32_t row) { return ring + row % ring_rows * stride; };
  uint32_t loaded = 0;
  for (uint32_t y0 = part.first_row; y0 < part.first_row + part.rows; y0 += kRowsAtOnce) {
    const uint32_t count = lesser(kRowsAtOnce, part.first_row + part.rows - y0);
    const Range needed = sources_of(down, call.support, y0, count);
    source.convert(greater(loaded, needed.begin), needed.end, row_at);
    loaded = needed.end;
    sync_threads();
    for (uint32_t i = thread_number(); i < count * width; i += thread_count()) {
      const uint32_t y = i / width, x = i % width;
      const AxisSpan span = view.rows[y0 + y];
      Sum sum(kBlendShift);
      for (uint32_t k = 0; k < span.count; ++k) {
        sum.add(row_at(span.start + k)[lead + x],
                load_constant(view.row_weights + k * view.size + y0 + y));
      }
      work[y * stride + x] = sum.parts();
    }
    sync_threads();
    for (uint32_t i = thread_number(); i < count * part.columns; i += thread_count()) {
      const uint32_t y = i / part.columns, x = part.first_column + i % part.columns;
      const AxisSpan span = view.columns[x];
      const Parts* from = work + y * stride + (span.start - view.sources.begin);
      Sum sum(kReduceShift);
      for (uint32_t k = 0; k < span.count; ++k) {
        sum.add(from[k], load_constant(view.column_weights + k * view.size + x));
      }
      view.write(call, x, y0 + y, sum.pixel());
    }
  }
}

HEADRACE_KERNEL(resample_sharp, kResampleThreads)(ResampleCall call) {
  const PartView view(call, block_number());
  const Part& part = view.part;
  const Axis& down = view.picture.axes[1];
  const PixelSource source{call.blob, call.samples, view.picture, view.sources};
  const uint32_t stride = row_stride_of(view.sources), lead = source.lead();
  const uint32_t ring_rows = most_rows(down, call.support, kRowsAtOnce);
  auto* const pixels = shared_memory<uint32_t>();
  auto* const ring = reinterpret_cast<Parts*>(pixels + kRowsAtOnce * stride);
  const auto row_at = [&](uint32_t row) { return ring + row % ring_rows * part.columns; };
  uint32_t loaded = 0;
  for (uint32_t y0 = part.first_row; y0 < part.first_row + part.rows; y0 += kRowsAtOnce) {
    const uint32_t count = lesser(kRowsAtOnce, part.first_row + part.rows - y0);
    const Range needed = sources_of(down, call.support, y0, count);
    for (uint32_t row = greater(loaded, needed.begin); row < needed.end; row += kRowsAtOnce) {
      const uint32_t rows = lesser(kRowsAtOnce, needed.end - row);
      source.convert(row, row + rows, [&](uint32_t at) { return pixels + (at - row) * stride; });
      sync_threads();
      for (uint32_t i = thread_number(); i < rows * part.columns; i += thread_count()) {
        const uint32_t y = i / part.columns, x = i % part.columns;
        const AxisSpan span = view.columns[part.first_column + x];
        const uint32_t* from = pixels + y * stride + lead + (span.start - view.sources.begin);
        Sum sum(kBlendShift);
        for (uint32_t k = 0; k < span.count; ++k) {
          sum.add(from[k],
                  load_constant(view.column_weights + k * view.size + part.first_column + x));
        }
        row_at(row + y)[x] = sum.parts();
      }
      sync_threads();
    }
    loaded = needed.end;
    for (uint32_t i = thread_number(); i < count * part.columns; i += thread_count()) {
      const uint32_t y = i / part.columns, x = i % part.columns;
      const AxisSpan span = view.rows[y0 + y];
      Sum sum(kReduceShift);
      for (uint32_t k = 0; k < span.count; ++k) {
        sum.add(row_at(span.start + k)[x],
                load_constant(view.row_weights + k * view.size + y0 + y));
      }
      view.write(call, part.first_column + x, y0 + y, sum.pixel());
    }
  }
}

}  // namespace headrace::gpu
