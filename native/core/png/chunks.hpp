// Layout of a PNG: 8 bytes of signature, then chunks: size of the content (4 bytes, big-endian),
// name (4), content, CRC-32 of name and content (4). The first is IHDR; pixels are in IDAT.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace headrace {

inline constexpr std::array<std::uint8_t, 8> kPngSignature{0x89, 'P',  'N',  'G',
                                                           '\r', '\n', 0x1A, '\n'};
inline constexpr std::size_t kPngChunkFrame = 12;  // size, name and CRC

constexpr std::uint32_t png_chunk(const char (&name)[5]) noexcept {
  return static_cast<std::uint32_t>(name[0]) << 24U | static_cast<std::uint32_t>(name[1]) << 16U |
         static_cast<std::uint32_t>(name[2]) << 8U | static_cast<std::uint32_t>(name[3]);
}

constexpr bool is_chunk_name(std::uint32_t name) noexcept {
  for (unsigned shift = 0; shift < 32; shift += 8) {
    const std::uint32_t letter = (name >> shift & 0xFFU) | 0x20U;
    if (letter < 'a' || letter > 'z') return false;
  }
  return true;
}

// Who does not know a critical chunk cannot show the picture. Its name begins with a capital.
constexpr bool is_critical_chunk(std::uint32_t name) noexcept { return (name >> 24U & 0x20U) == 0; }

}  // namespace headrace
