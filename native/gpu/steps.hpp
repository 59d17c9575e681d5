// Steps on finished pictures, and their values in the output's type: a thread block for each
// picture. What a step does to a pixel is what the CPU does (kernels/pixel_arithmetic.hpp).
//
// A picture is interleaved RGB of 8 bits without gaps between its rows, and has room for
// a multiple of four pixels. Steps that move pixels, or make them of their neighbours, read one
// buffer and write the other.
#pragma once

#include "gpu/device.hpp"
#include "gpu/layout.hpp"
#include "gpu/output.hpp"
#include "kernels/pixel_arithmetic.hpp"

namespace headrace::gpu {

inline constexpr uint32_t kStepThreads = 512;
inline constexpr uint32_t kHistograms = 8;  // so that warps seldom count in the same one
inline constexpr uint32_t kMostBlurHalf = 127;
inline constexpr uint32_t kBlurValues = 6144;   // of rows that have been blurred down
inline constexpr uint32_t kBlurColumns = 1024;  // of a part of a row

struct alignas(16) StepMemory {
  uint8_t table[3][256];
  uint8_t limits[3][2];  // of each channel
  uint32_t sum;
  float weights[kMostBlurHalf + 1];
  union {
    uint32_t counts[kHistograms][3][256];
    float rows[kBlurValues];
  };
};
static_assert((kBlurColumns + 2 * kMostBlurHalf) * 3 <= kBlurValues, "a part of a row fits");

struct StepCall {
  const uint8_t* blob;
  uint8_t* pictures;
  uint8_t* copies;  // as many; none where no step needs them
  uint64_t picture_bytes;
  Output output;
};

// The numbers of a step, in order.
struct StepReader {
  const uint32_t* words;

  HEADRACE_GPU_INLINE uint32_t word() { return load_constant(words++); }
  HEADRACE_GPU_INLINE float number() { return float_of(word()); }
  HEADRACE_GPU_INLINE int64_t number_64() {
    const uint32_t low = word();
    return static_cast<int64_t>(uint64_t{word()} << 32 | low);
  }
};

HEADRACE_GPU_INLINE uint32_t pixel_at(const uint8_t* pixels, size_t i) {
  const uint8_t* from = pixels + 3 * i;
  return from[0] | uint32_t{from[1]} << 8 | uint32_t{from[2]} << 16;
}
HEADRACE_GPU_INLINE void put_pixel(uint8_t* pixels, size_t i, uint32_t pixel) {
  uint8_t* to = pixels + 3 * i;
  to[0] = static_cast<uint8_t>(pixel);
  to[1] = static_cast<uint8_t>(pixel >> 8);
  to[2] = static_cast<uint8_t>(pixel >> 16);
}

struct Canvas {
  uint8_t* pixels;
  uint8_t* copy;
  uint32_t width, height;
  StepMemory& shared;

  HEADRACE_GPU_INLINE uint32_t count() const { return width * height; }

  // act(x, y) for each place of a part: a warp takes a row.
  template <typename Act>
  HEADRACE_GPU_INLINE static void for_each(uint32_t columns, uint32_t rows, const Act& act) {
    const uint32_t warps = thread_count() / kWarp;
    for (uint32_t y = thread_number() / kWarp; y < rows; y += warps) {
      for (uint32_t x = thread_number() % kWarp; x < columns; x += kWarp) act(x, y);
    }
  }

  // act(pixel) gives another one. Four pixels are three words; the last four may be beyond
  // the end, where nobody looks.
  template <typename Act>
  HEADRACE_GPU_INLINE void change_pixels(const Act& act) const {
    auto* const words = reinterpret_cast<uint32_t*>(pixels);
    for (uint32_t i = thread_number(); 4 * i < count(); i += thread_count()) {
      uint32_t* const w = words + 3 * size_t{i};
      const uint32_t a = w[0], b = w[1], c = w[2];
      const uint32_t p0 = act(a & 0xFFFFFF), p1 = act(a >> 24 | (b & 0xFFFF) << 8);
      const uint32_t p2 = act(b >> 16 | (c & 0xFF) << 16), p3 = act(c >> 8);
      w[0] = p0 | p1 << 24;
      w[1] = p1 >> 8 | p2 << 16;
      w[2] = p2 >> 16 | p3 << 8;
    }
  }

  template <typename Look>
  HEADRACE_GPU_INLINE void look_at_pixels(const Look& look) const {
    const auto* const words = reinterpret_cast<const uint32_t*>(pixels);
    for (uint32_t i = thread_number(); 4 * i < count(); i += thread_count()) {
      const uint32_t* const w = words + 3 * size_t{i};
      const uint32_t a = w[0], b = w[1], c = w[2], left = count() - 4 * i;
      look(a & 0xFFFFFF);
      if (left > 1) look(a >> 24 | (b & 0xFFFF) << 8);
      if (left > 2) look(b >> 16 | (c & 0xFF) << 16);
      if (left > 3) look(c >> 8);
    }
  }

  HEADRACE_GPU_INLINE void swap() {
    uint8_t* const other = copy;
    copy = pixels;
    pixels = other;
  }
};

// level_of(level) for all channels.
template <typename LevelOf>
HEADRACE_GPU_INLINE void fill_table(StepMemory& s, const LevelOf& level_of) {
  for (uint32_t i = thread_number(); i < 256; i += thread_count()) {
    s.table[0][i] = s.table[1][i] = s.table[2][i] = level_of(static_cast<uint8_t>(i));
  }
  sync_threads();
}

HEADRACE_GPU_INLINE void map_levels(const Canvas& canvas) {
  const StepMemory& s = canvas.shared;
  canvas.change_pixels([&](uint32_t pixel) {
    return s.table[0][pixel & 255] | uint32_t{s.table[1][pixel >> 8 & 255]} << 8 |
           uint32_t{s.table[2][pixel >> 16]} << 16;
  });
}

HEADRACE_GPU_INLINE uint32_t grey_of_pixel(uint32_t pixel) {
  return kernels::grey_of(static_cast<uint8_t>(pixel), static_cast<uint8_t>(pixel >> 8),
                          static_cast<uint8_t>(pixel >> 16));
}

// The sum of the grey of all pixels; of at most 2^24, so it has 32 bits.
HEADRACE_GPU_INLINE uint32_t sum_grey(const Canvas& canvas) {
  StepMemory& s = canvas.shared;
  if (thread_number() == 0) s.sum = 0;
  sync_threads();
  uint32_t sum = 0;
  canvas.look_at_pixels([&](uint32_t pixel) { sum += grey_of_pixel(pixel); });
  for (uint32_t by = kWarp / 2; by > 0; by /= 2) sum += shuffle_down(sum, by);  // lane 0 has all
  if (thread_number() % kWarp == 0) add_to(&s.sum, sum);
  sync_threads();
  return s.sum;
}

HEADRACE_GPU_INLINE void blend_with_level(const Canvas& canvas, double factor, double level) {
  const double rest = (1 - factor) * level;
  fill_table(canvas.shared, [&](uint8_t value) { return kernels::blended(value, factor, rest); });
  map_levels(canvas);
}

HEADRACE_GPU_INLINE void blend_with_grey(const Canvas& canvas, double factor) {
  canvas.change_pixels([&](uint32_t pixel) {
    const double rest = (1 - factor) * grey_of_pixel(pixel);
    uint32_t result = 0;
    HEADRACE_UNROLL
    for (uint32_t c = 0; c < 3; ++c) {
      const auto value = static_cast<uint8_t>(pixel >> 8 * c);
      result |= uint32_t{kernels::blended(value, factor, rest)} << 8 * c;
    }
    return result;
  });
}

HEADRACE_GPU_INLINE void turn_hue(const Canvas& canvas, float sixths) {
  canvas.change_pixels([&](uint32_t pixel) {
    const kernels::Hue hue =
        kernels::turned_hue(static_cast<float>(pixel & 255), static_cast<float>(pixel >> 8 & 255),
                            static_cast<float>(pixel >> 16), sixths);
    return uint32_t{kernels::channel_of(hue, 5)} | uint32_t{kernels::channel_of(hue, 3)} << 8 |
           uint32_t{kernels::channel_of(hue, 1)} << 16;
  });
}

// In counts[0] of the shared memory.
HEADRACE_GPU_INLINE void count_levels(const Canvas& canvas) {
  StepMemory& s = canvas.shared;
  constexpr uint32_t kCounts = 3 * 256;
  uint32_t* const all = &s.counts[0][0][0];
  for (uint32_t i = thread_number(); i < kHistograms * kCounts; i += thread_count()) all[i] = 0;
  sync_threads();
  uint32_t* const own = all + thread_number() / kWarp % kHistograms * kCounts;
  canvas.look_at_pixels([&](uint32_t pixel) {
    add_to(own + (pixel & 255), 1);
    add_to(own + 256 + (pixel >> 8 & 255), 1);
    add_to(own + 512 + (pixel >> 16), 1);
  });
  sync_threads();
  for (uint32_t i = thread_number(); i < kCounts; i += thread_count()) {
    for (uint32_t k = 1; k < kHistograms; ++k) all[i] += all[i + k * kCounts];
  }
  sync_threads();
}

HEADRACE_GPU_INLINE void stretch_contrast(const Canvas& canvas) {
  StepMemory& s = canvas.shared;
  count_levels(canvas);
  if (const uint32_t c = thread_number(); c < 3) {
    uint32_t low = 0, high = 255;
    while (low < 255 && s.counts[0][c][low] == 0) ++low;
    while (high > 0 && s.counts[0][c][high] == 0) --high;
    s.limits[c][0] = static_cast<uint8_t>(low);
    s.limits[c][1] = static_cast<uint8_t>(high);
  }
  sync_threads();
  for (uint32_t i = thread_number(); i < 3 * 256; i += thread_count()) {
    const uint32_t c = i / 256;
    s.table[c][i % 256] =
        kernels::stretched(static_cast<uint8_t>(i % 256), s.limits[c][0], s.limits[c][1]);
  }
  sync_threads();
  map_levels(canvas);
}

HEADRACE_GPU_INLINE void equalize(const Canvas& canvas) {
  StepMemory& s = canvas.shared;
  count_levels(canvas);
  if (const uint32_t c = thread_number(); c < 3) {
    kernels::spread_levels(s.counts[0][c], s.table[c]);
  }
  sync_threads();
  map_levels(canvas);
}

HEADRACE_GPU_INLINE void move_pixels(Canvas& canvas, StepReader& reader) {
  const int64_t x0 = reader.number_64(), y0 = reader.number_64();
  const int64_t right = reader.number_64(), down = reader.number_64();
  const int64_t next_x = reader.number_64(), next_y = reader.number_64();
  const uint32_t colour = reader.word();
  const uint8_t* const source = canvas.pixels;
  uint8_t* const target = canvas.copy;
  const uint32_t width = canvas.width, height = canvas.height;
  Canvas::for_each(width, height, [&](uint32_t x, uint32_t y) {
    const int64_t at_x = (x0 + x * right + y * next_x) >> 16;
    const int64_t at_y = (y0 + x * down + y * next_y) >> 16;
    const bool is_inside = at_x >= 0 && at_x < width && at_y >= 0 && at_y < height;
    put_pixel(target, size_t{y} * width + x,
              is_inside ? pixel_at(source, static_cast<size_t>(at_y * width + at_x)) : colour);
  });
  canvas.swap();
}

HEADRACE_GPU_INLINE void fill_part(const Canvas& canvas, StepReader& reader) {
  const uint32_t left = reader.word(), top = reader.word();
  const uint32_t width = reader.word(), height = reader.word();
  const uint32_t colour = reader.word();
  Canvas::for_each(width, height, [&](uint32_t x, uint32_t y) {
    put_pixel(canvas.pixels, size_t{top + y} * canvas.width + left + x, colour);
  });
}

HEADRACE_GPU_INLINE void fill_with_noise(const Canvas& canvas, StepReader& reader) {
  const uint32_t left = reader.word(), top = reader.word();
  const uint32_t width = reader.word(), height = reader.word();
  const auto seed = static_cast<uint64_t>(reader.number_64());
  const uint32_t numbers = (3 * width + 7) / 8;  // of eight bytes, in a row
  Canvas::for_each(numbers, height, [&](uint32_t i, uint32_t y) {
    const uint64_t bits = kernels::noise_of(seed, uint64_t{y} * numbers + i);
    uint8_t* const row = canvas.pixels + 3 * (size_t{top + y} * canvas.width + left);
    for (uint32_t k = 8 * i; k < lesser(8 * i + 8, 3 * width); ++k) {
      row[k] = static_cast<uint8_t>(bits >> 8 * (k % 8));
    }
  });
}

HEADRACE_GPU_INLINE void sharpen(Canvas& canvas, float factor) {
  const uint32_t stride = 3 * canvas.width;
  const float rest = 1 - factor;
  Canvas::for_each(stride, canvas.height, [&](uint32_t x, uint32_t y) {
    const uint8_t* const v = canvas.pixels + size_t{y} * stride + x;
    const bool is_rim = x < 3 || x + 3 >= stride || y == 0 || y + 1 == canvas.height;
    uint8_t result = *v;
    if (!is_rim) {
      const uint8_t* const a = v - stride;
      const uint8_t* const b = v + stride;
      const int around = *(a - 3) + a[0] + a[3] + *(v - 3) + v[3] + *(b - 3) + b[0] + b[3];
      result = kernels::sharpened(*v, around, factor, rest);
    }
    canvas.copy[size_t{y} * stride + x] = result;
  });
  canvas.swap();
}

HEADRACE_GPU_INLINE uint32_t mirrored(uint32_t position, int32_t by, uint32_t size) {
  const int64_t at = int64_t{position} + by;
  if (at >= 0 && at < size) return static_cast<uint32_t>(at);
  return static_cast<uint32_t>(kernels::mirrored_position(at, size));
}

// Some rows at a time, or a part of one where they are long: down into the shared memory, with what
// stands to the left and right of them, then across.
HEADRACE_GPU_INLINE void blur(Canvas& canvas, StepReader& reader) {
  StepMemory& s = canvas.shared;
  const uint32_t half = reader.word();
  for (uint32_t k = thread_number(); k <= half; k += thread_count())
    s.weights[k] = float_of(load_constant(reader.words + k));
  reader.words += half + 1;
  sync_threads();
  const uint32_t width = canvas.width, height = canvas.height, stride = 3 * width;
  const uint32_t columns = lesser(width, kBlurColumns);
  const uint32_t row_values = 3 * (columns + 2 * half), rows_at_once = kBlurValues / row_values;
  for (uint32_t y0 = 0; y0 < height; y0 += rows_at_once) {
    const uint32_t rows = lesser(rows_at_once, height - y0);
    for (uint32_t x0 = 0; x0 < width; x0 += columns) {
      const uint32_t part = lesser(columns, width - x0);
      Canvas::for_each(part + 2 * half, rows, [&](uint32_t x, uint32_t y) {
        const uint32_t at =
            mirrored(x0, static_cast<int32_t>(x) - static_cast<int32_t>(half), width);
        const uint8_t* const column = canvas.pixels + 3 * size_t{at};
        float sums[3];
        HEADRACE_UNROLL
        for (uint32_t c = 0; c < 3; ++c) {
          sums[c] = s.weights[0] * static_cast<float>(column[size_t{y0 + y} * stride + c]);
        }
        for (uint32_t k = 1; k <= half; ++k) {
          const auto by = static_cast<int32_t>(k);
          const uint8_t* const above = column + size_t{mirrored(y0 + y, -by, height)} * stride;
          const uint8_t* const below = column + size_t{mirrored(y0 + y, by, height)} * stride;
          HEADRACE_UNROLL
          for (uint32_t c = 0; c < 3; ++c) {
            sums[c] += s.weights[k] * static_cast<float>(above[c] + below[c]);
          }
        }
        HEADRACE_UNROLL
        for (uint32_t c = 0; c < 3; ++c) s.rows[y * row_values + 3 * x + c] = sums[c];
      });
      sync_threads();
      Canvas::for_each(3 * part, rows, [&](uint32_t x, uint32_t y) {
        const float* const middle = s.rows + y * row_values + 3 * half + x;
        float sum = s.weights[0] * middle[0];
        for (uint32_t k = 1; k <= half; ++k) {
          sum += s.weights[k] * (*(middle - 3 * k) + middle[3 * k]);
        }
        canvas.copy[size_t{y0 + y} * stride + 3 * x0 + x] = kernels::blurred(sum);
      });
      sync_threads();
    }
  }
  canvas.swap();
}

HEADRACE_GPU_INLINE void apply_step(Canvas& canvas, uint32_t step, StepReader& reader) {
  switch (step) {
    case kMove:
      return move_pixels(canvas, reader);
    case kFill:
      return fill_part(canvas, reader);
    case kNoise:
      return fill_with_noise(canvas, reader);
    case kBrightness:
      return blend_with_level(canvas, reader.number(), 0);
    case kContrast: {
      const double mean =
          static_cast<double>(sum_grey(canvas)) / static_cast<double>(canvas.count());
      return blend_with_level(canvas, reader.number(), mean);
    }
    case kSaturation:
      return blend_with_grey(canvas, reader.number());
    case kHue:
      return turn_hue(canvas, reader.number());
    case kPosterize: {
      const uint32_t mask = reader.word();
      fill_table(canvas.shared, [&](uint8_t level) { return static_cast<uint8_t>(level & mask); });
      return map_levels(canvas);
    }
    case kSolarize: {
      const float threshold = reader.number();
      fill_table(canvas.shared,
                 [&](uint8_t level) { return kernels::solarized(level, threshold); });
      return map_levels(canvas);
    }
    case kAutocontrast:
      return stretch_contrast(canvas);
    case kEqualize:
      return equalize(canvas);
    case kSharpness:
      return sharpen(canvas, reader.number());
    default:
      return blur(canvas, reader);
  }
}

// Neighbouring threads write neighbouring values.
template <typename Value>
HEADRACE_GPU_INLINE void write_typed_picture(const Output& output, uint32_t number,
                                             const Canvas& canvas) {
  auto* const values = reinterpret_cast<Value*>(output.values) + number * output.picture_values;
  const uint32_t count = canvas.count();
  if (output.is_channels_first) {
    for (uint32_t i = thread_number(); i < count; i += thread_count()) {
      HEADRACE_UNROLL
      for (uint32_t c = 0; c < 3; ++c) {
        values[size_t{c} * count + i] =
            value_of_level<Value>(output, c, canvas.pixels[3 * size_t{i} + c]);
      }
    }
  } else {
    for (uint32_t i = thread_number(); i < 3 * count; i += thread_count()) {
      values[i] = value_of_level<Value>(output, i % 3, canvas.pixels[i]);
    }
  }
}

HEADRACE_GPU_INLINE void write_picture(const Output& output, uint32_t number,
                                       const Canvas& canvas) {
  if (output.value_size == 1) return write_typed_picture<uint8_t>(output, number, canvas);
  if (output.value_size == 2) return write_typed_picture<uint16_t>(output, number, canvas);
  write_typed_picture<uint32_t>(output, number, canvas);
}

HEADRACE_KERNEL(apply_steps, kStepThreads)(StepCall call) {
  const uint32_t number = block_number();
  const Picture& picture = reinterpret_cast<const Picture*>(call.blob)[number];
  if (picture.kind == kAbsent) return;
  Canvas canvas{call.pictures + number * call.picture_bytes,
                call.copies + number * call.picture_bytes, call.output.width, call.output.height,
                *shared_memory<StepMemory>()};
  // What lies behind the last pixel, so that nobody reads what nobody wrote.
  for (uint64_t i = 3 * uint64_t{canvas.count()} + thread_number(); i < call.picture_bytes;
       i += thread_count()) {
    canvas.pixels[i] = canvas.copy[i] = 0;
  }
  sync_threads();
  if (picture.steps != 0) {
    StepReader reader{reinterpret_cast<const uint32_t*>(call.blob) + picture.steps};
    for (uint32_t step = reader.word(); step != kNoMoreSteps; step = reader.word()) {
      apply_step(canvas, step, reader);
      sync_threads();
    }
  }
  write_picture(call.output, number, canvas);
}

}  // namespace headrace::gpu
