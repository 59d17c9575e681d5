// WebP through libwebp, where the build found it. Every function may be called from any thread.
#pragma once

#include <cstdint>

#include "headrace/bytes.hpp"
#include "headrace/image.hpp"
#include "headrace/status.hpp"

namespace headrace {

struct WebpInfo {
  std::uint32_t width = 0;
  std::uint32_t height = 0;
  bool has_alpha = false;
  bool is_animated = false;
};

[[nodiscard]] bool has_webp_decoder() noexcept;

// Reads the header. Fails with `unsupported` in a build without libwebp.
Result<WebpInfo> read_webp_info(ByteSpan data) noexcept;

// Decodes to interleaved RGB; `out` has exactly the bytes of `want`. Alpha is dropped where it says
// opaque everywhere. Fails with `unsupported` for a picture that is transparent somewhere or
// animated, or in a build without libwebp, with `corrupt` when the image has another size or
// damage, and with `truncated`. After a failure the contents of `out` are unspecified.
Status decode_webp(ByteSpan data, ImageShape want, MutableByteSpan out) noexcept;

}  // namespace headrace
