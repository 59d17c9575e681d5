// Entropy-coded bytes without their stuffing, and a reader of bits for them.
#pragma once

#include <cstdint>
#include <vector>

#include "core/jpeg/baseline.hpp"
#include "headrace/bytes.hpp"
#include "kernels/jpeg_types.hpp"

namespace headrace {

// More than the bits of one MCU: codes and values of 64 coefficients in each block, and a load.
inline constexpr std::size_t kMcuBytes = kMaxMcuBlocks * kBlockSize * 31 / 8 + 32;

// Bits from the top. Whoever reads checks after each MCU that the end was not passed; there are
// kMcuBytes behind it that may be read.
class BitReader {
 public:
  explicit BitReader(const std::uint8_t* bytes, unsigned first_bit = 0) noexcept
      : begin_(bytes), next_(bytes) {
    refill();
    skip(first_bit);
  }

  // At least 56 bits are there afterwards.
  void refill() noexcept {
    bits_ |= load_u64_be(next_) >> count_;
    next_ += (63 - count_) >> 3;
    count_ |= 56;
  }
  [[nodiscard]] std::uint64_t bits() const noexcept { return bits_; }
  void skip(unsigned count) noexcept {
    bits_ <<= count;
    count_ -= count;
  }
  // From the first byte.
  [[nodiscard]] std::uint64_t position() const noexcept {
    return static_cast<std::uint64_t>(next_ - begin_) * 8 - count_;
  }

 private:
  static std::uint64_t load_u64_be(const std::uint8_t* from) noexcept {
    return __builtin_bswap64(load_u64_le(reinterpret_cast<const std::byte*>(from)));
  }

  const std::uint8_t* begin_;
  const std::uint8_t* next_;
  std::uint64_t bits_ = 0;
  unsigned count_ = 0;
};

// The difference that a DC code stands for. False when there is no such code.
bool read_dc(BitReader& reader, const kernels::JpegCodes& codes, int& value) noexcept;

// Passes over the other coefficients of a block. False when there is no such code, or too many.
bool skip_ac(BitReader& reader, const kernels::JpegCodes& codes) noexcept;

// Appends to the `size` bytes in `out` what is there up to the next marker or the end, without the
// zeros after FF; returns where that is. `removed`, where it is not null, gets the number of bytes
// in `out` before each zero that was left out. kMcuBytes behind the bytes may be read.
std::size_t destuff(ByteSpan from, std::vector<std::uint8_t>& out, std::size_t& size,
                    std::vector<std::uint32_t>* removed);

}  // namespace headrace
