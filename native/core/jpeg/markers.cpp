#include "core/jpeg/markers.hpp"

namespace headrace {

Status damaged_header(Code code, std::string_view what, std::size_t at) noexcept {
  return Status(code, Detail("JPEG header: ") << what, static_cast<std::int64_t>(at));
}

Result<unsigned> next_marker(ByteSpan data, std::size_t& at) noexcept {
  for (; at + 1 < data.size(); ++at) {
    const unsigned marker = byte_at(data, at + 1);
    if (byte_at(data, at) == 0xFF && marker != 0x00 && marker != 0xFF) {
      at += 2;
      return marker;
    }
  }
  return damaged_header(Code::truncated, "ends before the first scan", data.size());
}

Result<ByteSpan> segment_body(ByteSpan data, std::size_t at) noexcept {
  if (!is_inside(at, 2, data.size())) {
    return damaged_header(Code::truncated, "ends inside a segment", data.size());
  }
  const std::size_t length = load_u16_be(data.data() + at);
  if (length < 2) return damaged_header(Code::corrupt, "segment length below 2", at);
  if (!is_inside(at, length, data.size())) {
    return damaged_header(Code::truncated, "ends inside a segment", data.size());
  }
  return data.subspan(at + 2, length - 2);
}

}  // namespace headrace
