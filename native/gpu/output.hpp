// The values of a batch: each level becomes an entry of a table that the CPU has made with its own
// arithmetic, so that both have the same bits.
#pragma once

#include "gpu/device.hpp"
#include "gpu/layout.hpp"

namespace headrace::gpu {

inline constexpr uint32_t kFillThreads = 256;

struct Output {
  uint8_t* values;
  const uint8_t* table;     // [3][256] entries; none: levels as they are
  uint64_t picture_values;  // from picture to picture
  uint32_t width, height;
  uint32_t value_size;  // 1, 2 or 4
  uint32_t is_channels_first;
  uint32_t fill;  // a pixel
};

// What a level of channel c becomes.
template <typename Value>
HEADRACE_GPU_INLINE Value value_of_level(const Output& output, uint32_t c, uint32_t level) {
  const auto* table = reinterpret_cast<const Value*>(output.table);
  return table == nullptr ? static_cast<Value>(level) : load_constant(table + c * 256 + level);
}

template <typename Value>
HEADRACE_GPU_INLINE void write_values(const Output& output, size_t first, size_t step,
                                      uint32_t pixel) {
  auto* to = reinterpret_cast<Value*>(output.values) + first;
  HEADRACE_UNROLL
  for (uint32_t c = 0; c < 3; ++c) {
    to[c * step] = value_of_level<Value>(output, c, pixel >> 8 * c & 255);
  }
}

HEADRACE_GPU_INLINE void write_pixel(const Output& output, uint32_t picture, uint32_t x, uint32_t y,
                                     uint32_t pixel) {
  const size_t plane = size_t{output.width} * output.height, at = size_t{y} * output.width + x;
  const size_t first = picture * output.picture_values + (output.is_channels_first ? at : at * 3);
  const size_t step = output.is_channels_first ? plane : 1;
  if (output.value_size == 1) return write_values<uint8_t>(output, first, step, pixel);
  if (output.value_size == 2) return write_values<uint16_t>(output, first, step, pixel);
  write_values<uint32_t>(output, first, step, pixel);
}

// Stored at once.
template <typename Value>
struct alignas(4 * sizeof(Value)) FourValues {
  Value v[4];
};

// Rows of pixels as those of write_typed_rows, four pixels at a time.
template <typename Value, bool kIsChannelsFirst>
HEADRACE_GPU_INLINE void write_fours(const Output& output, Value* values, uint32_t x, uint32_t y,
                                     uint32_t columns, uint32_t rows, const uint32_t* pixels) {
  const uint32_t groups = columns / 4;
  const Divider by_groups(groups);
  const size_t plane = size_t{output.width} * output.height / 4;
  auto* const to = reinterpret_cast<FourValues<Value>*>(values);
  for (uint32_t i = thread_number(); i < groups * rows; i += thread_count()) {
    const Four four = reinterpret_cast<const Four*>(pixels)[i];
    const uint32_t row = by_groups.quotient(i);
    const size_t at = (size_t{y + row} * output.width + x) / 4 + (i - row * groups);
    FourValues<Value> out[3];
    HEADRACE_UNROLL
    for (uint32_t k = 0; k < 12; ++k) {  // of channels one after the other, or of pixels
      const uint32_t p = kIsChannelsFirst ? k % 4 : k / 3;
      const uint32_t c = kIsChannelsFirst ? k / 4 : k % 3;
      out[k / 4].v[k % 4] = value_of_level<Value>(output, c, four.v[p] >> 8 * c & 255);
    }
    HEADRACE_UNROLL
    for (uint32_t k = 0; k < 3; ++k) {
      to[kIsChannelsFirst ? k * plane + at : 3 * at + k] = out[k];
    }
  }
}

// Pixels x to x + columns - 1 of some rows from y on, from rows of words without gaps. Neighbouring
// threads write neighbouring values.
template <typename Value>
HEADRACE_GPU_INLINE void write_typed_rows(const Output& output, uint32_t picture, uint32_t x,
                                          uint32_t y, uint32_t columns, uint32_t rows,
                                          const uint32_t* pixels) {
  const size_t plane = size_t{output.width} * output.height;
  auto* const values = reinterpret_cast<Value*>(output.values) + picture * output.picture_values;
  if (((output.width | output.picture_values | columns | x) & 3) == 0 &&
      reinterpret_cast<size_t>(values) % sizeof(FourValues<Value>) == 0) {
    return output.is_channels_first
               ? write_fours<Value, true>(output, values, x, y, columns, rows, pixels)
               : write_fours<Value, false>(output, values, x, y, columns, rows, pixels);
  }
  for (uint32_t row = 0; row < rows; ++row, pixels += columns) {
    const size_t first = size_t{y + row} * output.width + x;
    if (output.is_channels_first) {
      for (uint32_t i = thread_number(); i < columns; i += thread_count()) {
        HEADRACE_UNROLL
        for (uint32_t c = 0; c < 3; ++c) {
          values[c * plane + first + i] =
              value_of_level<Value>(output, c, pixels[i] >> 8 * c & 255);
        }
      }
    } else {
      for (uint32_t i = thread_number(); i < 3 * columns; i += thread_count()) {
        const uint32_t c = i % 3;
        values[3 * first + i] = value_of_level<Value>(output, c, pixels[i / 3] >> 8 * c & 255);
      }
    }
  }
}

HEADRACE_GPU_INLINE void write_rows(const Output& output, uint32_t picture, uint32_t x, uint32_t y,
                                    uint32_t columns, uint32_t rows, const uint32_t* pixels) {
  if (output.value_size == 1)
    return write_typed_rows<uint8_t>(output, picture, x, y, columns, rows, pixels);
  if (output.value_size == 2)
    return write_typed_rows<uint16_t>(output, picture, x, y, columns, rows, pixels);
  write_typed_rows<uint32_t>(output, picture, x, y, columns, rows, pixels);
}

// What stands around pictures that do not fill their place.
HEADRACE_KERNEL(fill_around, kFillThreads)(const uint8_t* blob, Output output) {
  const Picture& picture = reinterpret_cast<const Picture*>(blob)[block_number()];
  const uint32_t right = picture.place_left + picture.axes[0].size,
                 bottom = picture.place_top + picture.axes[1].size;
  if (picture.kind == kAbsent) return;
  const bool is_empty = picture.kind == kEmpty;
  for (uint32_t i = thread_number(); i < output.width * output.height; i += thread_count()) {
    const uint32_t x = i % output.width, y = i / output.width;
    const bool is_inside =
        x >= picture.place_left && x < right && y >= picture.place_top && y < bottom;
    if (is_empty || !is_inside) write_pixel(output, block_number(), x, y, output.fill);
  }
}

}  // namespace headrace::gpu
