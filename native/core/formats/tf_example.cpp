#include "headrace/formats/tf_example.hpp"

#include <algorithm>
#include <limits>
#include <new>

#include "core/formats/tf_feature.hpp"
#include "headrace/formats/wire.hpp"

namespace headrace {
namespace {

Status no_memory_for_values() noexcept {
  return {Code::out_of_memory, "no memory for so many values"};
}

Status bad_span(SpanList spans, std::size_t i, std::size_t size) noexcept {
  return {Code::out_of_bounds,
          Detail() << spans.sizes[i] << " bytes from byte " << spans.offsets[i]
                   << " on should be there, and there are " << size,
          static_cast<std::int64_t>(i)};
}

Status no_feature(std::size_t i) noexcept {
  return {Code::corrupt, "the bytes are no feature of this kind", static_cast<std::int64_t>(i)};
}

// Calls take(span) for each span; it gives false when the bytes are wrong.
template <typename Values, typename Take>
Status for_each_span(ByteSpan base, SpanList spans, const Values& values,
                     std::span<std::int64_t> ends, Take&& take) noexcept {
  try {
    for (std::size_t i = 0; i < spans.offsets.size(); ++i) {
      if (!is_inside(spans.offsets[i], spans.sizes[i], base.size())) {
        return bad_span(spans, i, base.size());
      }
      if (!take(base.subspan(spans.offsets[i], spans.sizes[i]))) return no_feature(i);
      ends[i] = static_cast<std::int64_t>(values.size());
    }
  } catch (const std::bad_alloc&) {
    return no_memory_for_values();
  }
  return {};
}

bool add_packed(ByteSpan packed, std::vector<std::int64_t>& values) {
  const std::byte* at = packed.data();
  const std::byte* end = at + packed.size();
  while (at != end) {
    std::uint64_t value = 0;
    if (!read_varint(at, end, value)) return false;
    values.push_back(static_cast<std::int64_t>(value));
  }
  return true;
}

bool add_packed(ByteSpan packed, std::vector<float>& values) {
  if (packed.size() % sizeof(float) != 0) return false;
  for (std::size_t i = 0; i < packed.size(); i += sizeof(float)) {
    std::uint32_t bits = 0;
    for (unsigned k = 0; k < 4; ++k) {
      bits |= std::to_integer<std::uint32_t>(packed[i + k]) << (8 * k);
    }
    values.push_back(std::bit_cast<float>(bits));
  }
  return true;
}

// The values of a list of this kind in a Feature; of several kinds the last one counts.
template <TfKind kKind, typename Values, typename Add>
bool add_feature(ByteSpan message, Values& values, Add&& add) {
  const auto before = values.size();
  WireReader feature(message);
  for (WireField list; feature.next(list);) {
    if (list.type != WireType::bytes || list.number < 1 || list.number > 3) continue;
    if (list.number != static_cast<std::uint32_t>(kKind)) {
      values.resize(before);
      continue;
    }
    WireReader reader(list.payload);
    for (WireField value; reader.next(value);) {
      if (is_value(kKind, value) && !add(value.payload)) return false;
    }
    if (reader.is_bad()) return false;
  }
  return !feature.is_bad();
}

template <TfKind kKind, typename T>
Status read_numbers(ByteSpan base, SpanList spans, bool is_message, std::vector<T>& values,
                    std::span<std::int64_t> ends) noexcept {
  const auto add = [&](ByteSpan packed) { return add_packed(packed, values); };
  return for_each_span(base, spans, values, ends, [&](ByteSpan span) {
    return is_message ? add_feature<kKind>(span, values, add) : add(span);
  });
}

// Spans inside `base`, as places.
struct PlaceList {
  ByteSpan base;
  TfPlaces& places;

  [[nodiscard]] std::size_t size() const noexcept { return places.sizes.size(); }
  void resize(std::size_t size) {
    places.offsets.resize(size);
    places.sizes.resize(size);
  }
  bool add(ByteSpan span) {
    places.offsets.push_back(static_cast<std::uint64_t>(span.data() - base.data()));
    places.sizes.push_back(span.size());
    return true;
  }
};

}  // namespace

Status read_tf_ints(ByteSpan base, SpanList spans, bool is_message,
                    std::vector<std::int64_t>& values, std::span<std::int64_t> ends) noexcept {
  return read_numbers<TfKind::ints>(base, spans, is_message, values, ends);
}

Status read_tf_floats(ByteSpan base, SpanList spans, bool is_message, std::vector<float>& values,
                      std::span<std::int64_t> ends) noexcept {
  return read_numbers<TfKind::floats>(base, spans, is_message, values, ends);
}

Status find_tf_bytes(ByteSpan base, SpanList features, TfPlaces& places,
                     std::span<std::int64_t> ends) noexcept {
  PlaceList list{base, places};
  return for_each_span(base, features, list, ends, [&](ByteSpan span) {
    return add_feature<TfKind::bytes>(span, list, [&](ByteSpan value) { return list.add(value); });
  });
}

Status find_tf_steps(ByteSpan base, SpanList lists, TfPlaces& places,
                     std::span<std::int64_t> ends) noexcept {
  PlaceList list{base, places};
  return for_each_span(base, lists, list, ends, [&](ByteSpan span) {
    WireReader reader(span);
    for (WireField field; reader.next(field);) {
      if (field.number == 1 && field.type == WireType::bytes) list.add(field.payload);
    }
    return !reader.is_bad();
  });
}

}  // namespace headrace
