#include "headrace/webp.hpp"

#ifdef HEADRACE_HAS_WEBP

#include <webp/decode.h>

#include <new>
#include <vector>

#include "core/opaque.hpp"

namespace headrace {
namespace {

Status failure_of(VP8StatusCode code) noexcept {
  switch (code) {
    case VP8_STATUS_OK:
      return {};
    case VP8_STATUS_OUT_OF_MEMORY:
      return Status(Code::out_of_memory, "no memory for a WebP");
    case VP8_STATUS_SUSPENDED:
    case VP8_STATUS_NOT_ENOUGH_DATA:
      return Status(Code::truncated, "WebP: the file ends too early");
    case VP8_STATUS_UNSUPPORTED_FEATURE:
      return Status(Code::unsupported, "WebP: of a kind that libwebp does not know");
    default:
      return Status(Code::corrupt, "WebP: the file is damaged");
  }
}

VP8StatusCode decode_with(ByteSpan data, WEBP_CSP_MODE mode, std::uint8_t* out, std::size_t size,
                          std::size_t stride) noexcept {
  WebPDecoderConfig config;
  if (WebPInitDecoderConfig(&config) == 0) return VP8_STATUS_INVALID_PARAM;
  config.output.colorspace = mode;
  config.output.is_external_memory = 1;
  config.output.u.RGBA = {out, static_cast<int>(stride), size};
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(data.data());
  return WebPDecode(bytes, data.size(), &config);
}

// Throws std::bad_alloc.
Status decode_alpha(ByteSpan data, ImageShape shape, std::uint8_t* out) {
  std::vector<std::uint8_t> pixels(shape.width * shape.height * 4);
  const Status status =
      failure_of(decode_with(data, MODE_RGBA, pixels.data(), pixels.size(), shape.width * 4));
  if (!status.is_ok()) return status;
  if (!drop_alpha(pixels.data(), shape.width * shape.height, out)) return is_transparent();
  return {};
}

}  // namespace

bool has_webp_decoder() noexcept { return true; }

Result<WebpInfo> read_webp_info(ByteSpan data) noexcept {
  WebPBitstreamFeatures features;
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(data.data());
  const Status status = failure_of(WebPGetFeatures(bytes, data.size(), &features));
  if (!status.is_ok()) return status;
  if (features.width <= 0 || features.height <= 0) {
    return Status(Code::corrupt, "WebP: the picture is empty");
  }
  return WebpInfo{static_cast<std::uint32_t>(features.width),
                  static_cast<std::uint32_t>(features.height), features.has_alpha != 0,
                  features.has_animation != 0};
}

Status decode_webp(ByteSpan data, ImageShape want, MutableByteSpan out) noexcept {
  const auto found = read_webp_info(data);
  if (!found.is_ok()) return found.status();
  const WebpInfo& info = found.value();
  if (info.is_animated) return Status(Code::unsupported, "WebP: it is animated");
  if (info.width != want.width || info.height != want.height) {
    return Status(Code::corrupt, Detail("WebP: it has ")
                                     << info.width << "x" << info.height << " pixels, not "
                                     << want.width << "x" << want.height);
  }
  if (out.size() != std::size_t{info.width} * info.height * kRgbChannels) {  // sides have 24 bits
    return Status(Code::invalid_argument, "the output does not have the size of the picture");
  }
  auto* pixels = reinterpret_cast<std::uint8_t*>(out.data());
  if (!info.has_alpha) {
    return failure_of(decode_with(data, MODE_RGB, pixels, out.size(), want.width * kRgbChannels));
  }
  try {
    return decode_alpha(data, want, pixels);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for a WebP");
  }
}

}  // namespace headrace

#else

namespace headrace {
namespace {

Status no_decoder() noexcept {
  return Status(Code::unsupported, "WebP: this build of headrace has no libwebp");
}

}  // namespace

bool has_webp_decoder() noexcept { return false; }

Result<WebpInfo> read_webp_info(ByteSpan) noexcept { return no_decoder(); }

Status decode_webp(ByteSpan, ImageShape, MutableByteSpan) noexcept { return no_decoder(); }

}  // namespace headrace

#endif
