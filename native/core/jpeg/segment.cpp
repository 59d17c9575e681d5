#include "core/jpeg/segment.hpp"

#include <cstring>

namespace headrace {

using kernels::JpegCodes;

bool read_dc(BitReader& reader, const JpegCodes& codes, int& value) noexcept {
  reader.refill();
  const std::uint32_t entry = codes.entries[reader.bits() >> (64 - kernels::kDcBits)];
  std::uint32_t length = entry >> 8 & 255;
  std::uint32_t size = entry >> 16 & 255;
  if (entry == 0) {
    length = kernels::search_code(&codes, reader.bits(), &size);
    if (length == 0 || size > 15) return false;
  }
  const std::uint64_t bits = reader.bits() << length;
  const auto number = static_cast<int>(bits >> 1 >> (63 - size));  // 0 where there are no bits
  value = bits >> 63 != 0 ? number : number + 1 - (1 << size);
  reader.skip(length + size);
  return true;
}

namespace {

// An entry with the bits of code and value, whether or not the value fits the table; 0: no code.
std::uint32_t skipped_entry(const JpegCodes& codes, std::uint64_t bits,
                            std::uint32_t entry) noexcept {
  if (entry != 0) return (entry & 0xFF00) | ((entry >> 16 & 255) + (entry >> 24));
  std::uint32_t symbol = 0;
  const std::uint32_t length = kernels::search_code(&codes, bits, &symbol);
  if (length == 0) return 0;
  const std::uint32_t run = symbol >> 4;
  const std::uint32_t size = symbol & 15;
  if (size == 0) return length | (run == 15 ? 16 : kernels::kEndOfBlock) << 8;
  return (length + size) | (run + 1) << 8;
}

}  // namespace

bool skip_ac(BitReader& reader, const JpegCodes& codes) noexcept {
  std::uint32_t last = 0;
  while (last < kBlockSize - 1) {
    reader.refill();
    for (int i = 0; i < 4; ++i) {  // of 11 bits at most each, or refilled
      std::uint32_t entry = codes.entries[reader.bits() >> (64 - kernels::kAcBits)];
      if ((entry & 255) == 0) {
        reader.refill();
        entry = skipped_entry(codes, reader.bits(), entry);
        if (entry == 0) return false;
        reader.skip(entry & 255);
        reader.refill();
      } else {
        reader.skip(entry & 255);
      }
      const std::uint32_t advance = entry >> 8 & 255;
      if (advance == kernels::kEndOfBlock) return true;
      last += advance;
      if (last >= kBlockSize - 1) break;
    }
  }
  return last == kBlockSize - 1;
}

std::size_t destuff(ByteSpan from, std::vector<std::uint8_t>& out, std::size_t& size,
                    std::vector<std::uint32_t>* removed) {
  const std::size_t needed = size + from.size() + kMcuBytes;
  if (out.size() < needed) out.resize(needed);
  const auto* const begin = reinterpret_cast<const std::uint8_t*>(from.data());
  const std::uint8_t* const end = begin + from.size();
  const std::uint8_t* at = begin;
  std::uint8_t* to = out.data() + size;
  while (at < end) {
    const auto* found =
        static_cast<const std::uint8_t*>(std::memchr(at, 0xFF, static_cast<std::size_t>(end - at)));
    const bool is_marker = found != nullptr && found + 1 < end && found[1] != 0;
    const std::uint8_t* copied = found == nullptr ? end : found + (is_marker ? 0 : 1);
    const auto count = static_cast<std::size_t>(copied - at);
    std::memcpy(to, at, count);
    to += count;
    at = copied;
    if (is_marker) break;
    if (found == nullptr || at == end) continue;  // an FF that is the last byte has no zero
    ++at;
    if (removed != nullptr) removed->push_back(static_cast<std::uint32_t>(to - out.data()));
  }
  size = static_cast<std::size_t>(to - out.data());
  return static_cast<std::size_t>(at - begin);
}

}  // namespace headrace
