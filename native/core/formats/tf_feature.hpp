// One Feature of a tf.train.Example: of what kind its values are, how many, and where.
#pragma once

#include <algorithm>
#include <cstdint>

#include "headrace/formats/tf_example.hpp"
#include "headrace/formats/wire.hpp"

namespace headrace {

struct TfFeature {
  TfKind kind = TfKind::none;
  std::uint64_t count = 0;
  ByteSpan values;  // packed, or the one byte string; if is_one_span
  bool is_one_span = true;
};

// A field of a list is (a part of) its values; anything else is unknown, and skipped.
[[nodiscard]] inline bool is_value(TfKind kind, const WireField& field) noexcept {
  if (field.number != 1) return false;
  switch (kind) {
    case TfKind::ints:
      return field.type == WireType::bytes || field.type == WireType::varint;
    case TfKind::floats:
      return field.type == WireType::bytes || field.type == WireType::fixed32;
    default:
      return field.type == WireType::bytes;
  }
}

// How many values a part has; false when it can have none, as far as that is seen from outside.
[[nodiscard]] inline bool count_values(TfKind kind, ByteSpan part, std::uint64_t& count) noexcept {
  if (kind == TfKind::bytes) {
    count = 1;
    return true;
  }
  if (kind == TfKind::floats) {
    count = part.size() / 4;
    return part.size() % 4 == 0;
  }
  count = static_cast<std::uint64_t>(std::count_if(
      part.begin(), part.end(), [](std::byte b) { return (b & std::byte{0x80}) == std::byte{}; }));
  return part.empty() || (part.back() & std::byte{0x80}) == std::byte{};
}

// False when the bytes are no Feature.
[[nodiscard]] inline bool parse_tf_feature(ByteSpan message, TfFeature& out) noexcept {
  out = {};
  WireReader feature(message);
  for (WireField list; feature.next(list);) {
    if (list.type != WireType::bytes || list.number < 1 || list.number > 3) continue;
    const auto kind = static_cast<TfKind>(list.number);
    if (kind != out.kind) out = {};  // one of: the last one counts
    out.kind = kind;
    WireReader reader(list.payload);
    for (WireField part; reader.next(part);) {
      if (!is_value(kind, part)) continue;
      std::uint64_t count = 0;
      if (!count_values(kind, part.payload, count)) return false;
      if (count == 0) continue;
      out.is_one_span = out.count == 0;
      out.values = part.payload;
      out.count += count;
    }
    if (reader.is_bad()) return false;
  }
  return !feature.is_bad();
}

}  // namespace headrace
