#include "core/png/filters.hpp"

#include <array>
#include <cstdlib>
#include <cstring>

namespace headrace {
namespace {

// The bytes of one pixel, side by side; every x86-64 and AArch64 has instructions for it.
using Bytes8 [[gnu::vector_size(8)]] = std::uint8_t;
using Words8 [[gnu::vector_size(16)]] = std::int16_t;

Words8 load_pixel(const std::uint8_t* from) noexcept {
  std::uint64_t word = 0;
  std::memcpy(&word, from, 4);
  Bytes8 bytes;
  std::memcpy(&bytes, &word, sizeof bytes);
  return __builtin_convertvector(bytes, Words8);
}

template <std::size_t kSize>
void store_pixel(Words8 pixel, std::uint8_t* to) noexcept {
  const Bytes8 bytes = __builtin_convertvector(pixel, Bytes8);
  std::memcpy(to, &bytes, kSize);
}

Words8 magnitude(Words8 v) noexcept { return v < 0 ? -v : v; }

Words8 average(Words8 left, Words8 up, Words8) noexcept { return (left + up) >> 1; }

// The one that is nearest to left + up - corner; left before up before corner.
Words8 paeth(Words8 left, Words8 up, Words8 corner) noexcept {
  const Words8 by_up = up - corner, by_left = left - corner;
  const Words8 to_left = magnitude(by_up), to_up = magnitude(by_left);
  const Words8 to_corner = magnitude(by_up + by_left);
  const Words8 nearer = to_up <= to_corner ? up : corner;
  return (to_left <= to_up) & (to_left <= to_corner) ? left : nearer;
}

Words8 from_left(Words8 left, Words8, Words8) noexcept { return left; }

using Predict = Words8 (*)(Words8 left, Words8 up, Words8 corner);

template <std::size_t kSize, Predict kPredict>
void restore_pixels(const std::uint8_t* from, const std::uint8_t* above, std::size_t size,
                    std::uint8_t* to) noexcept {
  Words8 left{}, corner{};
  for (std::size_t i = 0; i < size; i += kSize) {
    const Words8 up = load_pixel(above + i);
    left = (load_pixel(from + i) + kPredict(left, up, corner)) & 255;
    corner = up;
    store_pixel<kSize>(left, to + i);
  }
}

void restore_up(const std::uint8_t* from, const std::uint8_t* above, std::size_t size,
                std::uint8_t* to) noexcept {
  for (std::size_t i = 0; i < size; ++i) to[i] = static_cast<std::uint8_t>(from[i] + above[i]);
}

template <std::size_t kSize>
void restore(unsigned filter, const std::uint8_t* from, const std::uint8_t* above, std::size_t size,
             std::uint8_t* to) noexcept {
  switch (filter) {
    case 1:
      return restore_pixels<kSize, from_left>(from, above, size, to);
    case 3:
      return restore_pixels<kSize, average>(from, above, size, to);
    default:
      return restore_pixels<kSize, paeth>(from, above, size, to);
  }
}

}  // namespace

bool restore_row(unsigned filter, std::size_t pixel_size, const std::uint8_t* from,
                 const std::uint8_t* above, std::size_t size, std::uint8_t* to) noexcept {
  if (filter > 4) return false;
  if (filter == 0) {
    if (to != from) std::memcpy(to, from, size);
  } else if (filter == 2) {
    restore_up(from, above, size, to);
  } else if (pixel_size == 1) {
    restore<1>(filter, from, above, size, to);
  } else if (pixel_size == 2) {
    restore<2>(filter, from, above, size, to);
  } else if (pixel_size == 3) {
    restore<3>(filter, from, above, size, to);
  } else {
    restore<4>(filter, from, above, size, to);
  }
  return true;
}

}  // namespace headrace
