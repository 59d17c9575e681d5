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

// Where output `number` begins in the sources, and `more` parts of `size` behind it. Sides of the
// output are below 2^16, those of most sources, too: then no product has more than 32 bits.
HEADRACE_DEVICE inline uint64_t scaled(const Axis& axis, uint32_t number, uint32_t more) {
  if (axis.length < 1U << 16) return (number * axis.length + more) / axis.size;
  return (uint64_t{number} * axis.length + more) / axis.size;
}

// All sources that outputs `first` to `first + count - 1` can have, and perhaps some more.
HEADRACE_DEVICE inline Range sources_of(const Axis& axis, uint32_t support, uint32_t first,
                                        uint32_t count) {
  const uint32_t begin = axis.is_mirrored ? axis.size - first - count : first;
  const uint64_t shrinking = axis.length / axis.size + 1;
  const uint64_t margin = support * shrinking + 1;
  const uint64_t low = axis.begin + scaled(axis, begin, 0);
  const uint64_t high = axis.begin + scaled(axis, begin + count, axis.size - 1) + margin;
  return {static_cast<uint32_t>(low < margin ? 0 : low - margin),
          static_cast<uint32_t>(high < axis.limit ? high : axis.limit)};
}

// The most rows that `count` outputs one below the other can need.
HEADRACE_DEVICE inline uint32_t most_rows(const Axis& axis, uint32_t support, uint32_t count) {
  const uint64_t shrinking = axis.length / axis.size + 1;
  const uint64_t rows = scaled(axis, count, axis.size - 1) + 1 + 2 * (support * shrinking + 1);
  return static_cast<uint32_t>(rows < axis.limit ? rows : axis.limit);
}

// Pixels are converted eight at a time, at multiples of eight of the planes.
HEADRACE_DEVICE inline uint32_t row_stride_of(const Range& columns) {
  return (columns.end - columns.begin + 14) / 8 * 8 + 8;
}

// Of a level, in 128ths: green above red, and blue.
struct alignas(8) Parts {
  uint32_t red_green, blue;
};

// Rows that wait to be written.
HEADRACE_DEVICE inline size_t written_bytes(uint32_t columns) {
  return kRowsAtOnce * columns * sizeof(uint32_t);
}

HEADRACE_DEVICE inline size_t smooth_bytes(const Picture& picture, uint32_t support,
                                           uint32_t first_column, uint32_t columns) {
  const size_t stride = row_stride_of(sources_of(picture.axes[0], support, first_column, columns));
  return stride * (most_rows(picture.axes[1], support, kRowsAtOnce) * sizeof(uint32_t) +
                   kRowsAtOnce * sizeof(Parts)) +
         written_bytes(columns);
}

HEADRACE_DEVICE inline size_t sharp_bytes(const Picture& picture, uint32_t support,
                                          uint32_t first_column, uint32_t columns) {
  const size_t stride = row_stride_of(sources_of(picture.axes[0], support, first_column, columns));
  return stride * kRowsAtOnce * sizeof(uint32_t) +
         size_t{most_rows(picture.axes[1], support, kRowsAtOnce)} * columns * sizeof(Parts) +
         written_bytes(columns);
}

// Rows `begin` to `end - 1` of the sources as pixels, to place(row): what the columns begin with
// lies at `lead_of`.
struct PixelSource {
  const uint8_t* blob;
  const Picture& picture;
  const SamplePlanes planes;
  const Range columns;
  const uint32_t kind, left, top;  // the picture's

  HEADRACE_GPU_INLINE PixelSource(const uint8_t* first, const uint8_t* samples,
                                  const Picture& source, const Range& range)
      : blob(first),
        picture(source),
        planes(source, samples),
        columns(range),
        kind(source.kind),
        left(source.left),
        top(source.top) {}

  HEADRACE_GPU_INLINE uint32_t aligned_begin() const { return (left + columns.begin) & ~7U; }
  HEADRACE_GPU_INLINE uint32_t lead() const { return left + columns.begin - aligned_begin(); }

  template <typename Place>
  HEADRACE_GPU_INLINE void convert(uint32_t begin, uint32_t end, const Place& place) const {
    const uint32_t first = aligned_begin();
    const uint32_t groups = (left + columns.end - first + 7) / 8;
    const Divider by_groups(groups);
    for (uint32_t i = thread_number(); i < groups * (end - begin); i += thread_count()) {
      const uint32_t number = by_groups.quotient(i), x = (i - number * groups) * 8;
      const uint32_t row = begin + number;
      uint32_t pixels[8];
      if (kind == kJpeg) {
        jpeg_pixels(planes, first + x, top + row, pixels);
      } else {
        raw_pixels(blob, picture, first + x, top + row, left + columns.end, pixels);
      }
      auto* const to = reinterpret_cast<Four*>(place(row) + x);
      to[0] = {{pixels[0], pixels[1], pixels[2], pixels[3]}};
      to[1] = {{pixels[4], pixels[5], pixels[6], pixels[7]}};
    }
  }
};

HEADRACE_GPU_INLINE int32_t plus_product(int32_t sum, int32_t weight, uint32_t part) {
  return static_cast<int32_t>(static_cast<uint32_t>(sum) + static_cast<uint32_t>(weight) * part);
}

struct Sum {
  int32_t v[3];

  HEADRACE_GPU_INLINE explicit Sum(int32_t shift)
      : v{1 << (shift - 1), 1 << (shift - 1), 1 << (shift - 1)} {}
  // Two pixels, by the weights in the halves of a word.
  HEADRACE_GPU_INLINE void add(uint32_t first, uint32_t second, uint32_t weights) {
    const uint32_t low = zip_low(first, second);
    v[0] = add_low(v[0], weights, low);
    v[1] = add_high(v[1], weights, low);
    v[2] = add_low(v[2], weights, zip_high(first, second));
  }
  // Sums of rows that nobody wrote are thrown away: whatever they are, they must not overflow.
  HEADRACE_GPU_INLINE void add(const Parts& parts, int32_t weight) {
    v[0] = plus_product(v[0], weight, parts.red_green & 0xFFFF);
    v[1] = plus_product(v[1], weight, parts.red_green >> 16);
    v[2] = plus_product(v[2], weight, parts.blue);
  }
  HEADRACE_GPU_INLINE uint32_t pixel() const {
    return pack_levels(v[0] >> kReduceShift, v[1] >> kReduceShift, v[2] >> kReduceShift, 0);
  }
  // Without negative weights no sum is beyond black and white.
  template <bool kIsSharp>
  HEADRACE_GPU_INLINE Parts parts() const {
    uint32_t cut[3];
    HEADRACE_UNROLL
    for (uint32_t c = 0; c < 3; ++c) {
      const int32_t part = v[c] >> kBlendShift;
      cut[c] = static_cast<uint32_t>(kIsSharp ? lesser(greater(part, 0), kWhiteParts) : part);
    }
    return {cut[0] | cut[1] << 16, cut[2]};
  }
};

HEADRACE_GPU_INLINE int32_t low_weight(uint32_t weights) { return static_cast<int16_t>(weights); }
HEADRACE_GPU_INLINE int32_t high_weight(uint32_t weights) {
  return static_cast<int32_t>(weights) >> 16;
}

struct ResampleCall {
  const uint8_t* blob;
  const uint8_t* samples;
  const Part* parts;
  AxisPlans plans;
  uint32_t support;
  uint32_t is_sharp;
  Output output;
};

// What all ways share: one part of one picture. Places are numbers rather than addresses, which
// would take twice the registers.
struct PartView {
  const ResampleCall& call;
  const Part part;
  const Picture& picture;
  const uint32_t column_weights, row_weights;
  const uint32_t width, height;  // of the picture's place
  const uint32_t left, top;      // of the part in the output
  const Range sources;

  HEADRACE_GPU_INLINE PartView(const ResampleCall& what, uint32_t number)
      : call(what),
        part(call.parts[number]),
        picture(reinterpret_cast<const Picture*>(call.blob)[part.picture]),
        column_weights(picture.axes[0].weights + part.first_column),
        row_weights(picture.axes[1].weights),
        width(picture.axes[0].size),
        height(picture.axes[1].size),
        left(picture.place_left + part.first_column),
        top(picture.place_top),
        sources(sources_of(picture.axes[0], call.support, part.first_column, part.columns)) {}

  // Columns count from the part's first one, rows do not.
  HEADRACE_GPU_INLINE AxisSpan column(uint32_t x) const {
    return call.plans.spans_of(part.picture, 0)[part.first_column + x];
  }
  HEADRACE_GPU_INLINE AxisSpan row(uint32_t y) const {
    return call.plans.spans_of(part.picture, 1)[y];
  }
  // Word k of the weights.
  HEADRACE_GPU_INLINE uint32_t column_weight(uint32_t k, uint32_t x) const {
    return load_constant(call.plans.weights + (column_weights + k * width + x));
  }
  HEADRACE_GPU_INLINE uint32_t row_weight(uint32_t k, uint32_t y) const {
    return load_constant(call.plans.weights + (row_weights + k * height + y));
  }
};

// Rows of a ring, one after the other: where each begins.
struct RingRow {
  uint32_t at, stride, end;

  // `row` is a row of the ring.
  HEADRACE_GPU_INLINE RingRow(uint32_t row, uint32_t row_stride, uint32_t rows)
      : at(row * row_stride), stride(row_stride), end(rows * row_stride) {}
  HEADRACE_GPU_INLINE uint32_t next() {
    const uint32_t here = at;
    at = at + stride == end ? 0 : at + stride;
    return here;
  }
};

// Threads that make one of the rows.
inline constexpr uint32_t kRowThreads = kResampleThreads / kRowsAtOnce;

// Rows of the sources in a ring: those of some outputs at a time, which follow each other.
struct RowRing {
  const uint32_t rows, stride;
  uint32_t loaded = 0;  // behind the last row that is there
  uint32_t next = 0;    // its place, or will be

  HEADRACE_GPU_INLINE RowRing(uint32_t count, uint32_t row_stride)
      : rows(count), stride(row_stride) {}
  // Of a row that is at most `rows` before `loaded`, or behind it.
  HEADRACE_GPU_INLINE uint32_t place(uint32_t row) const {
    const uint32_t at = next + rows + row - loaded;  // below 3 * rows
    const uint32_t less = at < rows ? at : at - rows;
    return less < rows ? less : less - rows;
  }
  HEADRACE_GPU_INLINE void advance(uint32_t end) {
    next = place(end);
    loaded = end;
  }
};

// All sources of outputs `first` to `first + count - 1` below each other, at most kRowsAtOnce.
HEADRACE_GPU_INLINE Range rows_needed(const PartView& view, uint32_t first, uint32_t count) {
  Range needed{~0U, 0};
  HEADRACE_UNROLL
  for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
    const AxisSpan span = view.row(first + lesser(i, count - 1));
    needed.begin = lesser(needed.begin, span.start);
    needed.end = greater(needed.end, span.start + span.count);
  }
  return needed;
}

// Columns `begin` to `end - 1` of rows of the ring, four pixels at a time, to one row of `work`.
HEADRACE_GPU_INLINE void blend_rows(const PartView& view, uint32_t y, const uint32_t* ring,
                                    const RingRow& first, uint32_t count, uint32_t begin,
                                    uint32_t end, Parts* work) {
  for (uint32_t x = begin + 4 * (thread_number() % kRowThreads); x < end; x += 4 * kRowThreads) {
    Sum sums[4] = {Sum(kBlendShift), Sum(kBlendShift), Sum(kBlendShift), Sum(kBlendShift)};
    RingRow row = first;
    HEADRACE_NO_UNROLL
    for (uint32_t k = 0; k < count; k += 2) {
      const uint32_t pair = view.row_weight(k / 2, y);
      const Four a = *reinterpret_cast<const Four*>(ring + row.next() + x);
      const Four b = *reinterpret_cast<const Four*>(ring + row.next() + x);
      HEADRACE_UNROLL
      for (uint32_t i = 0; i < 4; ++i) sums[i].add(a.v[i], b.v[i], pair);
    }
    HEADRACE_UNROLL
    for (uint32_t i = 0; i < 4; i += 2) {
      const Parts p = sums[i].parts<false>(), q = sums[i + 1].parts<false>();
      *reinterpret_cast<Four*>(work + x + i) = {{p.red_green, p.blue, q.red_green, q.blue}};
    }
  }
}

HEADRACE_KERNEL(resample_smooth, kResampleThreads)(ResampleCall call) {
  const PartView view(call, block_number());
  const Part& part = view.part;
  const Axis& down = view.picture.axes[1];
  const PixelSource source(call.blob, call.samples, view.picture, view.sources);
  const uint32_t stride = row_stride_of(view.sources), lead = source.lead();
  const uint32_t end = lead + view.sources.end - view.sources.begin;
  const uint32_t ring_rows = most_rows(down, call.support, kRowsAtOnce);
  auto* const ring = shared_memory<uint32_t>();
  auto* const work = reinterpret_cast<Parts*>(ring + ring_rows * stride);
  auto* const written = reinterpret_cast<uint32_t*>(work + kRowsAtOnce * stride);
  const uint32_t y = thread_number() / kRowThreads;
  RowRing rows(ring_rows, stride);
  for (uint32_t y0 = part.first_row; y0 < part.first_row + part.rows; y0 += kRowsAtOnce) {
    const uint32_t count = lesser(kRowsAtOnce, part.first_row + part.rows - y0);
    const Range needed = rows_needed(view, y0, count);
    if (needed.begin > rows.loaded)
      rows.loaded = needed.begin;  // nothing of the ring is used again
    if (needed.end > rows.loaded) {
      source.convert(rows.loaded, needed.end,
                     [&](uint32_t row) { return ring + rows.place(row) * stride; });
      rows.advance(needed.end);
    }
    sync_threads();
    if (y < count) {
      const AxisSpan span = view.row(y0 + y);
      blend_rows(view, y0 + y, ring, RingRow(rows.place(span.start), stride, ring_rows), span.count,
                 lead & ~3U, end, work + y * stride);
    }
    sync_threads();
    // A thread has a column, and all rows of it.
    for (uint32_t x = thread_number(); x < part.columns; x += kResampleThreads) {
      const AxisSpan span = view.column(x);
      const Parts* from = work + lead + (span.start - view.sources.begin);
      Sum sums[kRowsAtOnce] = {Sum(kReduceShift), Sum(kReduceShift), Sum(kReduceShift),
                               Sum(kReduceShift)};
      HEADRACE_NO_UNROLL
      for (uint32_t k = 0; k < span.count; k += 2) {
        const uint32_t pair = view.column_weight(k / 2, x);
        HEADRACE_UNROLL
        for (uint32_t i = 0; i < kRowsAtOnce; ++i) {
          sums[i].add(from[i * stride + k], low_weight(pair));
          sums[i].add(from[i * stride + k + 1], high_weight(pair));
        }
      }
      HEADRACE_UNROLL
      for (uint32_t i = 0; i < kRowsAtOnce; ++i) written[i * part.columns + x] = sums[i].pixel();
    }
    sync_threads();
    write_rows(call.output, part.picture, view.left, view.top + y0, part.columns, count, written);
  }
}

HEADRACE_KERNEL(resample_sharp, kResampleThreads)(ResampleCall call) {
  const PartView view(call, block_number());
  const Part& part = view.part;
  const Axis& down = view.picture.axes[1];
  const PixelSource source(call.blob, call.samples, view.picture, view.sources);
  const uint32_t stride = row_stride_of(view.sources), lead = source.lead();
  const uint32_t ring_rows = most_rows(down, call.support, kRowsAtOnce);
  auto* const pixels = shared_memory<uint32_t>();
  auto* const ring = reinterpret_cast<Parts*>(pixels + kRowsAtOnce * stride);
  auto* const written = reinterpret_cast<uint32_t*>(ring + ring_rows * part.columns);
  const uint32_t y = thread_number() / kRowThreads, first_x = thread_number() % kRowThreads;
  uint32_t loaded = 0;
  for (uint32_t y0 = part.first_row; y0 < part.first_row + part.rows; y0 += kRowsAtOnce) {
    const uint32_t count = lesser(kRowsAtOnce, part.first_row + part.rows - y0);
    const Range needed = sources_of(down, call.support, y0, count);
    for (uint32_t row = greater(loaded, needed.begin); row < needed.end; row += kRowsAtOnce) {
      const uint32_t rows = lesser(kRowsAtOnce, needed.end - row);
      source.convert(row, row + rows, [&](uint32_t at) { return pixels + (at - row) * stride; });
      sync_threads();
      Parts* const to = ring + (row + y) % ring_rows * part.columns;
      for (uint32_t x = first_x; x < part.columns && y < rows; x += kRowThreads) {
        const AxisSpan span = view.column(x);
        const uint32_t* from = pixels + y * stride + lead + (span.start - view.sources.begin);
        Sum sum(kBlendShift);
        HEADRACE_UNROLL_BY_TWO
        for (uint32_t k = 0; k < span.count; k += 2) {
          sum.add(from[k], from[k + 1], view.column_weight(k / 2, x));
        }
        to[x] = sum.parts<true>();
      }
      sync_threads();
    }
    loaded = needed.end;
    if (y < count) {
      const AxisSpan span = view.row(y0 + y);
      const RingRow first(span.start % ring_rows, part.columns, ring_rows);
      for (uint32_t x = first_x; x < part.columns; x += kRowThreads) {
        Sum sum(kReduceShift);
        RingRow row = first;
        HEADRACE_UNROLL_BY_TWO
        for (uint32_t k = 0; k < span.count; k += 2) {
          const uint32_t pair = view.row_weight(k / 2, y0 + y);
          sum.add(ring[row.next() + x], low_weight(pair));
          sum.add(ring[row.next() + x], high_weight(pair));
        }
        written[y * part.columns + x] = sum.pixel();
      }
    }
    sync_threads();
    write_rows(call.output, part.picture, view.left, view.top + y0, part.columns, count, written);
    sync_threads();  // the next rows may need no new sources, and then nobody waits
  }
}

}  // namespace headrace::gpu
