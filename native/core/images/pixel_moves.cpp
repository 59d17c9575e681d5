#include "core/images/pixel_moves.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "core/dispatch.hpp"
#include "kernels/pixel_arithmetic.hpp"

namespace headrace {
namespace {

struct MoveKernels {
  decltype(&kernels::scalar::mirror_row) mirror_row;
};

#define HEADRACE_TABLE(level) \
  MoveKernels { kernels::level::mirror_row }
constexpr KernelTables<MoveKernels> kMoveKernels = HEADRACE_KERNEL_TABLES(HEADRACE_TABLE);
#undef HEADRACE_TABLE

// The whole part, kept between the limits; no number is too large for it.
std::ptrdiff_t whole(double value, std::ptrdiff_t low, std::ptrdiff_t high) noexcept {
  if (value <= static_cast<double>(low)) return low;
  return value >= static_cast<double>(high) ? high : static_cast<std::ptrdiff_t>(value);
}

struct Extent {
  std::size_t begin;
  std::size_t size;
};

// What of `size` pixels from `begin` on lies below the limit.
Extent clip(float begin, float size, std::size_t limit) noexcept {
  const auto most = static_cast<std::ptrdiff_t>(limit);
  const double first = std::trunc(begin);
  const std::ptrdiff_t from = whole(first, 0, most);
  const std::ptrdiff_t to = whole(first + std::trunc(size), from, most);
  return {static_cast<std::size_t>(from), static_cast<std::size_t>(to - from)};
}

// Calls fill(first pixel, pixels) for each row of the part that the first four values name.
template <typename Fill>
void fill_part(std::span<const float> values, ImageShape shape, std::uint8_t* pixels,
               Fill&& fill) noexcept {
  const Window part = part_of(values, shape);
  for (std::size_t y = part.top; y < part.top + part.height; ++y) {
    fill(pixels + (y * shape.width + part.left) * kRgbChannels, part.width);
  }
}

// `from` may be `to`.
void shift_row(const std::uint8_t* from, std::size_t width, std::ptrdiff_t dx, const Colour& colour,
               std::uint8_t* to) noexcept {
  const auto gap = static_cast<std::size_t>(std::abs(dx));
  const std::size_t kept = width - gap;
  const std::size_t skipped = dx > 0 ? gap : 0;
  const std::size_t moved = dx > 0 ? 0 : gap;
  std::memmove(to + moved * kRgbChannels, from + skipped * kRgbChannels, kept * kRgbChannels);
  fill_pixels(to + (dx > 0 ? kept : 0) * kRgbChannels, gap, colour);
}

// Four bytes are one load and one store. The fourth is the next pixel's, which is written next; the
// last pixel of a row has none, and the source has one byte more than the picture.
inline void put_pixel(std::uint8_t* to, const std::uint8_t* from) noexcept {
  std::memcpy(to, from, kRgbChannels + 1);
}

// Pixel x of a row is `from` + x * step.
void copy_strided(const std::uint8_t* from, std::ptrdiff_t step, std::size_t width,
                  std::uint8_t* row) noexcept {
  for (std::size_t x = 0; x + 1 < width; ++x, from += step) put_pixel(row + x * kRgbChannels, from);
  std::memcpy(row + (width - 1) * kRgbChannels, from, kRgbChannels);
}

std::int64_t fixed(double value) noexcept {
  return static_cast<std::int64_t>(std::floor(value * (1 << kFixedBits) + 0.5));
}

// The first x of 0 to `width` with begin + x * step >= limit, for a step above 0.
std::int64_t first_from(std::int64_t begin, std::int64_t step, std::int64_t limit,
                        std::int64_t width) noexcept {
  return begin >= limit ? 0 : std::min((limit - begin + step - 1) / step, width);
}

// From where to where begin + x * step lies in a side of `size` pixels.
struct Inside {
  std::int64_t from;
  std::int64_t to;
};
Inside inside(std::int64_t begin, std::int64_t step, std::size_t size, std::size_t width) noexcept {
  const std::int64_t limit = static_cast<std::int64_t>(size) << kFixedBits;
  const auto all = static_cast<std::int64_t>(width);
  if (step == 0) return {0, begin >= 0 && begin < limit ? all : 0};
  if (step > 0) return {first_from(begin, step, 0, all), first_from(begin, step, limit, all)};
  return {first_from(-begin, -step, 1 - limit, all), first_from(-begin, -step, 1, all)};
}

void copy_along(const std::uint8_t* source, const PixelPath& path, ImageShape shape,
                const Colour& colour, std::uint8_t* row) noexcept {
  const Inside columns = inside(path.x, path.right, shape.width, shape.width);
  const Inside rows = inside(path.y, path.down, shape.height, shape.width);
  const std::int64_t from = std::max(columns.from, rows.from);
  const std::int64_t to = std::max(from, std::min(columns.to, rows.to));
  const auto source_of = [&](std::int64_t x) {
    const auto from_x = static_cast<std::size_t>((path.x + x * path.right) >> kFixedBits);
    const auto from_y = static_cast<std::size_t>((path.y + x * path.down) >> kFixedBits);
    return source + (from_y * shape.width + from_x) * kRgbChannels;
  };
  const auto at = [row](std::int64_t x) {
    return row + static_cast<std::size_t>(x) * kRgbChannels;
  };
  if (from < to && path.right == 1 << kFixedBits && path.down == 0) {
    std::memcpy(at(from), source_of(from), static_cast<std::size_t>(to - from) * kRgbChannels);
  } else if (from < to) {
    for (std::int64_t x = from; x + 1 < to; ++x) put_pixel(at(x), source_of(x));
    std::memcpy(at(to - 1), source_of(to - 1), kRgbChannels);
  }
  fill_pixels(row, static_cast<std::size_t>(from), colour);
  fill_pixels(at(to), shape.width - static_cast<std::size_t>(to), colour);
}

}  // namespace

Window part_of(std::span<const float> values, ImageShape shape) noexcept {
  const Extent rows = clip(values[0], values[2], shape.height);
  const Extent columns = clip(values[1], values[3], shape.width);
  return {columns.begin, rows.begin, columns.size, rows.size};
}

std::uint64_t noise_seed(std::span<const float> values) noexcept {
  return static_cast<std::uint64_t>(values[4]) << 24 | static_cast<std::uint64_t>(values[5]);
}

PixelShift shift_of(std::span<const float> values, ImageShape shape) noexcept {
  const auto height = static_cast<std::ptrdiff_t>(shape.height);
  const auto width = static_cast<std::ptrdiff_t>(shape.width);
  return {whole(values[0], -height, height), whole(values[1], -width, width)};
}

PixelPath path_of(std::span<const float> values) noexcept {
  std::array<double, 6> m;
  std::copy_n(values.begin(), 6, m.begin());
  return {fixed(m[2] + m[0] * 0.5 + m[1] * 0.5),
          fixed(m[5] + m[3] * 0.5 + m[4] * 0.5),
          fixed(m[0]),
          fixed(m[3]),
          fixed(m[1]),
          fixed(m[4])};
}

Colour colour_of(std::span<const float> values) noexcept {
  return {static_cast<std::uint8_t>(values[0]), static_cast<std::uint8_t>(values[1]),
          static_cast<std::uint8_t>(values[2])};
}

void flip(ImageShape shape, std::uint8_t* pixels) noexcept {
  const MoveKernels& kernels = in_use(kMoveKernels);
  for (std::size_t y = 0; y < shape.height; ++y) {
    kernels.mirror_row(pixels + y * shape.width * kRgbChannels, shape.width);
  }
}

void flip_vertically(ImageShape shape, std::uint8_t* pixels, StepScratch& scratch) noexcept {
  const std::size_t stride = shape.width * kRgbChannels;
  for (std::size_t y = 0; 2 * y + 1 < shape.height; ++y) {
    std::uint8_t* top = pixels + y * stride;
    std::uint8_t* bottom = pixels + (shape.height - 1 - y) * stride;
    std::memcpy(scratch.picture.data(), top, stride);
    std::memcpy(top, bottom, stride);
    std::memcpy(bottom, scratch.picture.data(), stride);
  }
}

void turn(unsigned quarters, ImageShape shape, std::uint8_t* pixels,
          StepScratch& scratch) noexcept {
  if (quarters == 0) return;
  if (quarters == 2) {
    flip_vertically(shape, pixels, scratch);
    return flip(shape, pixels);
  }
  const std::size_t side = shape.width;  // and height
  const std::size_t stride = side * kRgbChannels;
  std::memcpy(scratch.picture.data(), pixels, stride * side);
  const std::uint8_t* source = scratch.picture.data();
  constexpr std::size_t kBlock =
      32;  // rows of the result that share their cache lines of the source
  const auto step = static_cast<std::ptrdiff_t>(stride);
  for (std::size_t left = 0; left < side; left += kBlock) {
    const std::size_t width = std::min(kBlock, side - left);
    for (std::size_t y = 0; y < side; ++y) {
      const std::uint8_t* first = quarters == 1
                                      ? source + left * stride + (side - 1 - y) * kRgbChannels
                                      : source + (side - 1 - left) * stride + y * kRgbChannels;
      copy_strided(first, quarters == 1 ? step : -step, width,
                   pixels + (y * side + left) * kRgbChannels);
    }
  }
}

void cut_out(std::span<const float> values, ImageShape shape, std::uint8_t* pixels) noexcept {
  const Colour colour = colour_of(values.last(kRgbChannels));
  fill_part(values, shape, pixels, [&colour](std::uint8_t* first, std::size_t count) {
    fill_pixels(first, count, colour);
  });
}

void fill_with_noise(std::span<const float> values, ImageShape shape,
                     std::uint8_t* pixels) noexcept {
  const std::uint64_t seed = noise_seed(values);
  std::uint64_t number = 0;
  fill_part(values, shape, pixels, [&](std::uint8_t* first, std::size_t count) {
    for (std::size_t i = 0; i < count * kRgbChannels; i += 8) {
      const std::uint64_t bits = kernels::noise_of(seed, number++);
      for (std::size_t k = 0; k < std::min<std::size_t>(8, count * kRgbChannels - i); ++k) {
        first[i + k] = static_cast<std::uint8_t>(bits >> (8 * k));
      }
    }
  });
}

void translate(std::span<const float> values, ImageShape shape, std::uint8_t* pixels) noexcept {
  const auto height = static_cast<std::ptrdiff_t>(shape.height);
  const auto width = static_cast<std::ptrdiff_t>(shape.width);
  const auto [dy, dx] = shift_of(values, shape);
  const Colour colour = colour_of(values.last(kRgbChannels));
  const std::ptrdiff_t stride = width * static_cast<std::ptrdiff_t>(kRgbChannels);
  for (std::ptrdiff_t i = 0; i < height; ++i) {
    const std::ptrdiff_t y = dy >= 0 ? i : height - 1 - i;  // no row is lost before it is read
    std::uint8_t* row = pixels + y * stride;
    if (y + dy < 0 || y + dy >= height) {
      fill_pixels(row, shape.width, colour);
    } else {
      shift_row(row + dy * stride, shape.width, dx, colour, row);
    }
  }
}

void transform(std::span<const float> values, ImageShape shape, std::uint8_t* pixels,
               StepScratch& scratch) noexcept {
  const std::size_t stride = shape.width * kRgbChannels;
  std::memcpy(scratch.picture.data(), pixels, stride * shape.height);
  const std::uint8_t* source = scratch.picture.data();
  const Colour colour = colour_of(values.last(kRgbChannels));
  PixelPath path = path_of(values);
  for (std::size_t y = 0; y < shape.height; ++y) {
    copy_along(source, path, shape, colour, pixels + y * stride);
    path.x += path.next_x;
    path.y += path.next_y;
  }
}

}  // namespace headrace
