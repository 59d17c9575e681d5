// Walk over the marker segments of a JPEG header:
//   FF D8 | segments: FF, marker, length u16 (counts itself), body | ... | FF DA (first scan)
#pragma once

#include <cstddef>
#include <string_view>

#include "headrace/bytes.hpp"
#include "headrace/status.hpp"

namespace headrace {

namespace marker {
inline constexpr unsigned kDht = 0xC4;
inline constexpr unsigned kRst0 = 0xD0;
inline constexpr unsigned kSoi = 0xD8;
inline constexpr unsigned kEoi = 0xD9;
inline constexpr unsigned kSos = 0xDA;
inline constexpr unsigned kDqt = 0xDB;
inline constexpr unsigned kDnl = 0xDC;
inline constexpr unsigned kDri = 0xDD;
inline constexpr unsigned kDhp = 0xDE;
inline constexpr unsigned kApp0 = 0xE0;
inline constexpr unsigned kApp14 = 0xEE;
inline constexpr unsigned kApp15 = 0xEF;
inline constexpr unsigned kCom = 0xFE;
}  // namespace marker

[[nodiscard]] inline unsigned byte_at(ByteSpan data, std::size_t at) noexcept {
  return std::to_integer<unsigned>(data[at]);
}

// Start-of-frame markers are C0 to CF without DHT (C4), JPG (C8) and DAC (CC).
[[nodiscard]] constexpr bool is_frame_marker(unsigned marker) noexcept {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

[[nodiscard]] constexpr bool is_restart_marker(unsigned marker) noexcept {
  return marker >= 0xD0 && marker <= 0xD7;
}

// Markers without a length: TEM and the restart markers.
[[nodiscard]] constexpr bool is_bare_marker(unsigned marker) noexcept {
  return marker == 0x01 || is_restart_marker(marker);
}

// An error in the header, at a byte of the data.
[[nodiscard]] Status damaged_header(Code code, std::string_view what, std::size_t at) noexcept;

// Moves `at` behind the next marker code and returns it. As libjpeg does, bytes between segments
// that are no marker are skipped.
Result<unsigned> next_marker(ByteSpan data, std::size_t& at) noexcept;

// What follows the length at `at`.
Result<ByteSpan> segment_body(ByteSpan data, std::size_t at) noexcept;

}  // namespace headrace
