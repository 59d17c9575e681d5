#include "headrace/status.hpp"

#include <algorithm>
#include <charconv>

namespace headrace {

std::string_view code_name(Code code) noexcept {
  switch (code) {
    case Code::ok:
      return "ok";
    case Code::invalid_argument:
      return "invalid_argument";
    case Code::out_of_bounds:
      return "out_of_bounds";
    case Code::truncated:
      return "truncated";
    case Code::corrupt:
      return "corrupt";
    case Code::wrong_checksum:
      return "wrong_checksum";
    case Code::unsupported:
      return "unsupported";
    case Code::too_large:
      return "too_large";
    case Code::out_of_memory:
      return "out_of_memory";
    case Code::io_error:
      return "io_error";
  }
  return "unknown";
}

Detail& Detail::operator<<(std::string_view text) noexcept {
  const std::size_t n = std::min(text.size(), kCapacity - size_);
  std::copy_n(text.data(), n, text_ + size_);
  size_ += n;
  text_[size_] = '\0';
  return *this;
}

Detail& Detail::operator<<(std::uint64_t number) noexcept {
  char digits[20];
  const char* end = std::to_chars(digits, digits + sizeof digits, number).ptr;
  return *this << std::string_view(digits, static_cast<std::size_t>(end - digits));
}

Detail& Detail::operator<<(Hex32 number) noexcept {
  char digits[] = "0x00000000";
  for (int i = 0; i < 8; ++i) digits[9 - i] = "0123456789abcdef"[number.value >> (4 * i) & 0xFU];
  return *this << std::string_view(digits);
}

}  // namespace headrace
