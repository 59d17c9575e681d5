#include <array>
#include <optional>

#include "core/jpeg/markers.hpp"
#include "headrace/jpeg/codec.hpp"

namespace headrace {
namespace {

constexpr std::size_t kMaxComponents = 4;

bool starts_with(ByteSpan body, std::string_view text) noexcept {
  if (body.size() < text.size()) return false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (byte_at(body, i) != static_cast<unsigned char>(text[i])) return false;
  }
  return true;
}

struct InfoHeader {
  JpegInfo info;
  bool has_frame = false;
  bool has_jfif = false;
  std::optional<unsigned> adobe_transform;
  std::array<unsigned, kMaxComponents> component_ids{};
};

Status read_frame(unsigned code, ByteSpan body, std::size_t at, InfoHeader& header) noexcept {
  if (header.has_frame) return damaged_header(Code::corrupt, "more than one frame", at);
  if (body.size() < 6) return damaged_header(Code::corrupt, "frame segment too short", at);
  JpegInfo& info = header.info;
  info.precision = static_cast<int>(byte_at(body, 0));
  info.height = load_u16_be(body.data() + 1);
  info.width = load_u16_be(body.data() + 3);
  const std::size_t components = byte_at(body, 5);
  info.components = static_cast<int>(components);
  if (body.size() != 6 + 3 * components) {
    return damaged_header(Code::corrupt, "frame segment does not match its number of components",
                          at);
  }
  if (info.width == 0 || components == 0) return damaged_header(Code::corrupt, "empty image", at);
  if (info.height == 0)
    return damaged_header(Code::unsupported, "height is defined after the scan", at);
  for (std::size_t i = 0; i < components && i < kMaxComponents; ++i) {
    header.component_ids[i] = byte_at(body, 6 + 3 * i);
  }
  const unsigned process = code & 3;  // 0 baseline, 1 extended, 2 progressive, 3 lossless
  info.is_progressive = process == 2;
  info.is_arithmetic = code >= 0xC9;
  info.is_lossless |= process == 3 || (code & 4) != 0;
  header.has_frame = true;
  return {};
}

Status read_segment(unsigned code, ByteSpan body, std::size_t at, InfoHeader& header) noexcept {
  if (is_frame_marker(code)) return read_frame(code, body, at, header);
  if (code == marker::kDhp) header.info.is_lossless = true;  // frames of several sizes follow
  if (code == marker::kApp0 && body.size() >= 14 &&
      starts_with(body, std::string_view("JFIF\0", 5))) {
    header.has_jfif = true;
  }
  if (code == marker::kApp14 && body.size() >= 12 && starts_with(body, "Adobe")) {
    header.adobe_transform = byte_at(body, 11);
  }
  return {};
}

JpegColorSpace three_component_space(const InfoHeader& header) noexcept {
  if (header.has_jfif) return JpegColorSpace::ycbcr;
  if (header.adobe_transform) {
    return *header.adobe_transform == 0 ? JpegColorSpace::rgb : JpegColorSpace::ycbcr;
  }
  const auto& id = header.component_ids;
  const bool is_rgb = id[0] == 'R' && id[1] == 'G' && id[2] == 'B';
  return is_rgb ? JpegColorSpace::rgb : JpegColorSpace::ycbcr;
}

// The rules of libjpeg.
JpegColorSpace color_space_of(const InfoHeader& header) noexcept {
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

}  // namespace

namespace {

bool has_rgb(JpegColorSpace color_space) noexcept {
  return color_space == JpegColorSpace::grayscale || color_space == JpegColorSpace::ycbcr ||
         color_space == JpegColorSpace::rgb;
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
  if (data.size() < 2) return damaged_header(Code::truncated, "fewer than two bytes", data.size());
  if (byte_at(data, 0) != 0xFF || byte_at(data, 1) != marker::kSoi) {
    return damaged_header(Code::corrupt, "does not begin with FF D8: not a JPEG", 0);
  }
  InfoHeader header;
  std::size_t at = 2;
  while (true) {
    const auto found = next_marker(data, at);
    if (!found.is_ok()) return found.status();
    const unsigned code = found.value();
    if (code == marker::kSos || code == marker::kEoi) break;
    if (code == marker::kSoi) return damaged_header(Code::corrupt, "second start of image", at - 2);
    if (is_bare_marker(code)) continue;
    const auto body = segment_body(data, at);
    if (!body.is_ok()) return body.status();
    const Status status = read_segment(code, body.value(), at - 2, header);
    if (!status.is_ok()) return status;
    at += 2 + body.value().size();
  }
  if (!header.has_frame)
    return damaged_header(Code::corrupt, "no frame before the first scan", at - 2);
  header.info.color_space = color_space_of(header);
  return header.info;
}

Status read_jpeg_sides(ByteSpan base, SpanList spans, std::span<std::uint32_t> widths,
                       std::span<std::uint32_t> heights) noexcept {
  const Status inside = check_spans(spans, base.size());
  if (!inside.is_ok()) return inside;
  for (std::size_t i = 0; i < spans.offsets.size(); ++i) {
    const auto found = read_jpeg_info(base.subspan(spans.offsets[i], spans.sizes[i]));
    const bool is_plain = found.is_ok() && found.value().precision == 8 &&
                          !found.value().is_lossless && has_rgb(found.value().color_space);
    widths[i] = is_plain ? found.value().width : 0;
    heights[i] = is_plain ? found.value().height : 0;
  }
  return {};
}

}  // namespace headrace
