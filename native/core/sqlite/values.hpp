// Numbers and rows as SQLite stores them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "headrace/bytes.hpp"
#include "headrace/sqlite/file_table.hpp"

namespace headrace::sqlite {

inline constexpr std::uint8_t kIndexInner = 2;
inline constexpr std::uint8_t kTableInner = 5;
inline constexpr std::uint8_t kIndexLeaf = 10;
inline constexpr std::uint8_t kTableLeaf = 13;

[[nodiscard]] inline bool is_inner(const Page& page) noexcept {
  return page.kind == kIndexInner || page.kind == kTableInner;
}

// Of an inner page: what comes after its last entry.
[[nodiscard]] inline std::uint32_t last_child(const Page& page) noexcept {
  return load_u32_be(page.bytes.data() + page.header + 8);
}

// Takes a number of 1 to 9 bytes from the front; false when it is cut off.
[[nodiscard]] inline bool take_varint(ByteSpan& bytes, std::uint64_t& value) noexcept {
  if (!bytes.empty() && (bytes[0] & std::byte{0x80}) == std::byte{}) {  // nearly always
    value = std::to_integer<std::uint64_t>(bytes[0]);
    bytes = bytes.subspan(1);
    return true;
  }
  value = 0;
  for (std::size_t i = 0; i < 9; ++i) {
    if (i == bytes.size()) return false;
    const auto byte = std::to_integer<std::uint64_t>(bytes[i]);
    if (i == 8) {
      value = value << 8U | byte;
    } else {
      value = value << 7U | (byte & 0x7fU);
      if ((byte & 0x80U) != 0) continue;
    }
    bytes = bytes.subspan(i + 1);
    return true;
  }
  return false;
}

// Goes through the values of a row.
class Values {
 public:
  // `row` begins with the size of its header.
  [[nodiscard]] bool open(ByteSpan row) noexcept {
    ByteSpan rest = row;
    std::uint64_t header = 0;
    if (!take_varint(rest, header) || header > row.size() || header < row.size() - rest.size()) {
      return false;
    }
    types_ = rest.first(static_cast<std::size_t>(header) - (row.size() - rest.size()));
    body_ = row.subspan(static_cast<std::size_t>(header));
    return true;
  }

  // Takes the next value; false when there is none.
  [[nodiscard]] bool next() noexcept {
    if (types_.empty() || !take_varint(types_, type_)) return false;
    const std::uint64_t size = size_of(type_);
    if (size > body_.size()) return false;
    value_ = body_.first(static_cast<std::size_t>(size));
    body_ = body_.subspan(static_cast<std::size_t>(size));
    return true;
  }

  [[nodiscard]] bool is_null() const noexcept { return type_ == 0; }
  [[nodiscard]] bool is_text() const noexcept { return type_ >= 13 && type_ % 2 == 1; }
  [[nodiscard]] bool is_integer() const noexcept {
    return (type_ >= 1 && type_ <= 6) || type_ == 8 || type_ == 9;
  }
  [[nodiscard]] std::string_view text() const noexcept {
    return {reinterpret_cast<const char*>(value_.data()), value_.size()};
  }
  [[nodiscard]] std::int64_t integer() const noexcept {
    if (value_.empty()) return type_ == 9 ? 1 : 0;
    const bool is_negative = (value_[0] & std::byte{0x80}) != std::byte{};
    std::uint64_t number = is_negative ? ~std::uint64_t{0} : 0;
    for (const std::byte byte : value_)
      number = number << 8U | std::to_integer<std::uint64_t>(byte);
    return static_cast<std::int64_t>(number);
  }

 private:
  static std::uint64_t size_of(std::uint64_t type) noexcept {
    constexpr std::uint8_t sizes[12] = {0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0};
    return type < 12 ? sizes[type] : (type - 12) / 2;
  }

  ByteSpan types_;
  ByteSpan body_;
  ByteSpan value_;
  std::uint64_t type_ = 0;
};

}  // namespace headrace::sqlite
