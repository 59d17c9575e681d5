// Checked arithmetic on sizes and offsets that come from files, and unaligned loads.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>

namespace headrace {

using ByteSpan = std::span<const std::byte>;
using MutableByteSpan = std::span<std::byte>;

// Both return false on overflow and leave `sum` / `product` unspecified then.
[[nodiscard]] constexpr bool checked_add(std::uint64_t a, std::uint64_t b,
                                         std::uint64_t& sum) noexcept {
  sum = a + b;
  return sum >= a;
}

[[nodiscard]] constexpr bool checked_multiply(std::uint64_t a, std::uint64_t b,
                                              std::uint64_t& product) noexcept {
  product = a * b;
  return a == 0 || b <= std::numeric_limits<std::uint64_t>::max() / a;
}

[[nodiscard]] constexpr std::size_t divide_up(std::size_t a, std::size_t b) noexcept {
  return (a + b - 1) / b;
}

[[nodiscard]] constexpr std::size_t round_up(std::size_t value, std::size_t multiple) noexcept {
  return divide_up(value, multiple) * multiple;
}

// True when [offset, offset + size) lies inside a region of `region_size` bytes.
[[nodiscard]] constexpr bool is_inside(std::uint64_t offset, std::uint64_t size,
                                       std::uint64_t region_size) noexcept {
  return offset <= region_size && size <= region_size - offset;
}

// True when the two regions share a byte.
[[nodiscard]] inline bool is_overlapping(ByteSpan a, ByteSpan b) noexcept {
  const auto a_begin = reinterpret_cast<std::uintptr_t>(a.data());
  const auto b_begin = reinterpret_cast<std::uintptr_t>(b.data());
  return !a.empty() && !b.empty() && a_begin < b_begin + b.size() && b_begin < a_begin + a.size();
}

[[nodiscard]] inline std::uint64_t load_u64_le(const std::byte* from) noexcept {
  std::uint64_t value;
  std::memcpy(&value, from, sizeof value);
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap64(value);
  return value;
}

[[nodiscard]] inline std::uint32_t load_u32_le(const std::byte* from) noexcept {
  std::uint32_t value;
  std::memcpy(&value, from, sizeof value);
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap32(value);
  return value;
}

// JPEG and SQLite store their numbers big-endian.
[[nodiscard]] inline std::uint16_t load_u16_be(const std::byte* from) noexcept {
  return static_cast<std::uint16_t>(std::to_integer<unsigned>(from[0]) << 8 |
                                    std::to_integer<unsigned>(from[1]));
}

[[nodiscard]] inline std::uint32_t load_u32_be(const std::byte* from) noexcept {
  return static_cast<std::uint32_t>(load_u16_be(from)) << 16U | load_u16_be(from + 2);
}

}  // namespace headrace
