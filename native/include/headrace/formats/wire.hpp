// Protocol buffers as they lie in memory: fields one after the other. Nothing is trusted.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headrace/bytes.hpp"

namespace headrace {

enum class WireType : std::uint8_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

struct WireField {
  std::uint32_t number = 0;
  WireType type = WireType::varint;
  ByteSpan payload;  // of a varint its own bytes, of all others the value
};

// The number at `at`, which is moved behind it; false when it does not end before `end`, or has
// more than 64 bits.
[[nodiscard]] inline bool read_varint(const std::byte*& at, const std::byte* end,
                                      std::uint64_t& value) noexcept {
  value = 0;
  for (unsigned shift = 0; shift < 64 && at != end; shift += 7) {
    const auto byte = std::to_integer<std::uint64_t>(*at++);
    if (shift == 63 && byte > 1) return false;
    value |= (byte & 0x7F) << shift;
    if (byte < 0x80) return true;
  }
  return false;
}

// Goes through the fields of a message. `next` gives false at the end, and where the bytes are no
// message; then `is_bad` tells. Groups, which nobody has written for long, are not read.
class WireReader {
 public:
  explicit WireReader(ByteSpan message) noexcept
      : at_(message.data()), end_(message.data() + message.size()) {}

  [[nodiscard]] bool next(WireField& field) noexcept {
    if (at_ == end_ || is_bad_) return false;
    std::uint64_t tag = 0;
    if (!read_varint(at_, end_, tag) || tag > 0xFFFFFFFFU || tag >> 3 == 0) return fail();
    field.number = static_cast<std::uint32_t>(tag >> 3);
    field.type = static_cast<WireType>(tag & 7);
    switch (field.type) {
      case WireType::varint:
        return take_varint(field);
      case WireType::fixed64:
        return take(field, 8);
      case WireType::fixed32:
        return take(field, 4);
      case WireType::bytes: {
        std::uint64_t size = 0;
        return read_varint(at_, end_, size) ? take(field, size) : fail();
      }
    }
    return fail();
  }

  [[nodiscard]] bool is_bad() const noexcept { return is_bad_; }
  // Where the next field begins, or where the bad one was found.
  [[nodiscard]] const std::byte* at() const noexcept { return at_; }

 private:
  [[nodiscard]] bool take(WireField& field, std::uint64_t size) noexcept {
    if (size > static_cast<std::uint64_t>(end_ - at_)) return fail();
    field.payload = {at_, static_cast<std::size_t>(size)};
    at_ += size;
    return true;
  }

  [[nodiscard]] bool take_varint(WireField& field) noexcept {
    const std::byte* begin = at_;
    std::uint64_t value = 0;
    if (!read_varint(at_, end_, value)) return fail();
    field.payload = {begin, static_cast<std::size_t>(at_ - begin)};
    return true;
  }

  [[nodiscard]] bool fail() noexcept {
    is_bad_ = true;
    return false;
  }

  const std::byte* at_;
  const std::byte* end_;
  bool is_bad_ = false;
};

}  // namespace headrace
