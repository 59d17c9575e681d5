#include "headrace/images/headers.hpp"

#include "headrace/images/load.hpp"
#include "headrace/jpeg/codec.hpp"
#include "headrace/png.hpp"
#include "headrace/webp.hpp"

namespace headrace {
namespace {

struct Header {
  StoredMode mode = StoredMode::jpeg;
  std::uint32_t width = 0;
  std::uint32_t height = 0;
};

Header header_of(ByteSpan data) noexcept {
  if (has_png_decoder()) {
    const auto png = read_png_info(data);
    if (png.is_ok() && png.value().is_plain()) {
      return {StoredMode::png, png.value().width, png.value().height};
    }
  }
  if (has_webp_decoder()) {
    const auto webp = read_webp_info(data);
    if (webp.is_ok() && !webp.value().is_animated) {
      return {StoredMode::webp, webp.value().width, webp.value().height};
    }
  }
  return {};
}

}  // namespace

Status read_picture_headers(ByteSpan base, SpanList spans, std::uint64_t max_pixels,
                            const PictureHeaders& out) noexcept {
  const Status status = read_jpeg_sides(base, spans, out.widths, out.heights);
  if (!status.is_ok()) return status;
  for (std::size_t i = 0; i < spans.offsets.size(); ++i) {
    out.modes[i] = static_cast<std::uint8_t>(StoredMode::jpeg);
    if (out.widths[i] != 0) continue;
    const Header header = header_of(base.subspan(spans.offsets[i], spans.sizes[i]));
    if (std::uint64_t{header.width} * header.height > max_pixels) continue;
    out.modes[i] = static_cast<std::uint8_t>(header.mode);
    out.widths[i] = header.width;
    out.heights[i] = header.height;
  }
  return {};
}

}  // namespace headrace
