// Walk over the marker segments of a JPEG header:
//   FF D8 | segments: FF, marker, length u16 (counts itself), body | ... | FF DA (first scan)
#include <array>
#include <optional>

#include "penstock/jpeg.hpp"

namespace penstock {
namespace {

constexpr unsigned kSoi = 0xD8;
constexpr unsigned kEoi = 0xD9;
constexpr unsigned kSos = 0xDA;
constexpr unsigned kApp0 = 0xE0;
constexpr unsigned kApp14 = 0xEE;
constexpr std::size_t kMaxComponents = 4;

unsigned byte_at(ByteSpan data, std::size_t at) noexcept {
  return std::to_integer<unsigned>(data[at]);
}

Status damaged(Code code, std::string_view what, std::size_t at) noexcept {
  return Status(code, Detail("JPEG header: ") << what, static_cast<std::int64_t>(at));
}

bool starts_with(ByteSpan body, std::string_view text) noexcept {
  if (body.size() < text.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (byte_at(body, i) != static_cast<unsigned char>(text[i])) return false;
  }
  return true;
}

// Start-of-frame markers are C0 to CF without DHT (C4), JPG (C8) and DAC (CC).
bool is_frame(unsigned marker) noexcept {
  return marker >= 0xC0 && marker <= 0xCF && marker != 0xC4 && marker != 0xC8 && marker != 0xCC;
}

// Markers without a length: TEM and the restart markers.
bool is_bare(unsigned marker) noexcept {
  return marker == 0x01 || (marker >= 0xD0 && marker <= 0xD7);
}

struct Header {
  JpegInfo info;
  bool has_frame = false;
  bool has_jfif = false;
  std::optional<unsigned> adobe_transform;
  std::array<unsigned, kMaxComponents> component_ids{};
};

Status read_frame(unsigned marker, ByteSpan body, std::size_t at, Header& header) noexcept {
  if (header.has_frame) return damaged(Code::corrupt, "more than one frame", at);
  if (body.size() < 6) return damaged(Code::corrupt, "frame segment too short", at);
  JpegInfo& info = header.info;
  info.precision = static_cast<int>(byte_at(body, 0));
  info.height = load_u16_be(body.data() + 1);
  info.width = load_u16_be(body.data() + 3);
  const std::size_t components = byte_at(body, 5);
  info.components = static_cast<int>(components);
  if (body.size() != 6 + 3 * components) {
    return damaged(Code::corrupt, "frame segment does not match its number of components", at);
  }
  if (info.width == 0 || components == 0) return damaged(Code::corrupt, "empty image", at);
  if (info.height == 0) return damaged(Code::unsupported, "height is defined after the scan", at);
  for (std::size_t i = 0; i < components && i < kMaxComponents; ++i) {
    header.component_ids[i] = byte_at(body, 6 + 3 * i);
  }
  const unsigned process = marker & 3;  // 0 baseline, 1 extended, 2 progressive, 3 lossless
  info.is_progressive = process == 2;
  info.is_arithmetic = marker >= 0xC9;
  info.is_lossless = process == 3 || (marker & 4) != 0;
  header.has_frame = true;
  return {};
}

Status read_segment(unsigned marker, ByteSpan body, std::size_t at, Header& header) noexcept {
  if (is_frame(marker)) return read_frame(marker, body, at, header);
  if (marker == kApp0 && body.size() >= 14 && starts_with(body, std::string_view("JFIF\0", 5))) {
    header.has_jfif = true;
  }
  if (marker == kApp14 && body.size() >= 12 && starts_with(body, "Adobe")) {
    header.adobe_transform = byte_at(body, 11);
  }
  return {};
}

JpegColorSpace three_component_space(const Header& header) noexcept {
  if (header.has_jfif) return JpegColorSpace::ycbcr;
  if (header.adobe_transform) {
    return *header.adobe_transform == 0 ? JpegColorSpace::rgb : JpegColorSpace::ycbcr;
  }
  const auto& id = header.component_ids;
  const bool is_rgb = id[0] == 'R' && id[1] == 'G' && id[2] == 'B';
  return is_rgb ? JpegColorSpace::rgb : JpegColorSpace::ycbcr;
}

// The rules of libjpeg.
JpegColorSpace color_space_of(const Header& header) noexcept {
  switch (header.info.components) {
    case 1:
      return JpegColorSpace::grayscale;
    case 3:
      return three_component_space(header);
    case 4:
      return header.adobe_transform.value_or(0) == 0 ? JpegColorSpace::cmyk : JpegColorSpace::ycck;
    default:
      return JpegColorSpace::unknown;
  }
}

// Moves `at` behind the next marker code and returns it. As libjpeg does, bytes between segments
// that are no marker are skipped.
Result<unsigned> next_marker(ByteSpan data, std::size_t& at) noexcept {
  for (; at + 1 < data.size(); ++at) {
    const unsigned marker = byte_at(data, at + 1);
    if (byte_at(data, at) == 0xFF && marker != 0x00 && marker != 0xFF) {
      at += 2;
      return marker;
    }
  }
  return damaged(Code::truncated, "ends before the first scan", data.size());
}

Result<ByteSpan> segment_body(ByteSpan data, std::size_t at) noexcept {
  if (!is_inside(at, 2, data.size())) {
    return damaged(Code::truncated, "ends inside a segment", data.size());
  }
  const std::size_t length = load_u16_be(data.data() + at);
  if (length < 2) return damaged(Code::corrupt, "segment length below 2", at);
  if (!is_inside(at, length, data.size())) {
    return damaged(Code::truncated, "ends inside a segment", data.size());
  }
  return data.subspan(at + 2, length - 2);
}

}  // namespace

std::string_view color_space_name(JpegColorSpace color_space) noexcept {
  switch (color_space) {
    case JpegColorSpace::unknown:
      return "unknown";
    case JpegColorSpace::grayscale:
      return "grayscale";
    case JpegColorSpace::ycbcr:
      return "ycbcr";
    case JpegColorSpace::rgb:
      return "rgb";
    case JpegColorSpace::cmyk:
      return "cmyk";
    case JpegColorSpace::ycck:
      return "ycck";
  }
  return "unknown";
}

Result<JpegInfo> read_jpeg_info(ByteSpan data) noexcept {
  if (data.size() < 2) return damaged(Code::truncated, "fewer than two bytes", data.size());
  if (byte_at(data, 0) != 0xFF || byte_at(data, 1) != kSoi) {
    return damaged(Code::corrupt, "does not begin with FF D8: not a JPEG", 0);
  }
  Header header;
  std::size_t at = 2;
  while (true) {
    const auto marker = next_marker(data, at);
    if (!marker.is_ok()) return marker.status();
    if (marker.value() == kSos || marker.value() == kEoi) break;
    if (marker.value() == kSoi) return damaged(Code::corrupt, "second start of image", at - 2);
    if (is_bare(marker.value())) continue;
    const auto body = segment_body(data, at);
    if (!body.is_ok()) return body.status();
    const Status status = read_segment(marker.value(), body.value(), at - 2, header);
    if (!status.is_ok()) return status;
    at += 2 + body.value().size();
  }
  if (!header.has_frame) return damaged(Code::corrupt, "no frame before the first scan", at - 2);
  header.info.color_space = color_space_of(header);
  return header.info;
}

}  // namespace penstock
