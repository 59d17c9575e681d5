// Markers, Huffman codes for DC differences, and bits, for a JPEG made of parts of another.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/jpeg/baseline.hpp"
#include "headrace/bytes.hpp"
#include "headrace/status.hpp"

namespace headrace {

// Differences of 8-bit images have at most so many bits.
inline constexpr std::size_t kMaxDcSize = 11;

struct DcCode {
  std::uint32_t code;
  unsigned length;
};
using DcCodes = std::array<DcCode, kMaxDcSize + 1>;

// Adds codes for the sizes that `spec` has none for, behind all others, which keep theirs.
// `unsupported` when there is no room for them.
Status complete_dc_codes(HuffmanSpec& spec, DcCodes& codes) noexcept;

// Bits, the first one at the top of the first byte. Functions may throw std::bad_alloc.
class ScanWriter {
 public:
  explicit ScanWriter(std::vector<std::uint8_t>& memory) noexcept : memory_(memory) {}

  // Room for so many more bits.
  void reserve(std::size_t bits);
  // At most 32, after reserve().
  void put(std::uint32_t bits, unsigned count) noexcept;
  // From bit `first` on, after reserve(); eight bytes behind the last one may be read.
  void copy(const std::uint8_t* bytes, std::size_t first, std::size_t count) noexcept;
  // Fills the last byte with ones; then these are the bytes, without stuffing.
  [[nodiscard]] ByteSpan finish() noexcept;

 private:
  std::vector<std::uint8_t>& memory_;
  std::size_t size_ = 0;    // whole bytes
  std::uint64_t bits_ = 0;  // not yet stored, at the top
  unsigned count_ = 0;      // of them, below 8 between calls
};

// Everything before the entropy-coded data, for an image of `shape` with the tables of `jpeg`.
void append_header(const BaselineJpeg& jpeg, ImageShape shape, std::vector<std::byte>& out);

// The data with a zero after each FF, and the end marker.
void append_scan(ByteSpan scan, std::vector<std::byte>& out);

}  // namespace headrace
