#include <algorithm>

#include "core/png/chunks.hpp"
#include "headrace/png.hpp"

namespace headrace {
namespace {

constexpr std::uint32_t kHeaderSize = 13;
constexpr std::uint32_t kMaxNumber = 0x7FFFFFFF;

Status cut_short(ByteSpan data) noexcept {
  return Status(Code::truncated, "PNG: the file ends before its pixels",
                static_cast<std::int64_t>(data.size()));
}

bool is_known(unsigned colour, unsigned depth) noexcept {
  const bool is_power = depth == 1 || depth == 2 || depth == 4 || depth == 8 || depth == 16;
  switch (colour) {
    case 0:
      return is_power;
    case 3:
      return is_power && depth <= 8;
    case 2:
    case 4:
    case 6:
      return depth == 8 || depth == 16;
    default:
      return false;
  }
}

Status read_header(const std::byte* content, PngInfo& info) noexcept {
  info.width = load_u32_be(content);
  info.height = load_u32_be(content + 4);
  const auto depth = std::to_integer<unsigned>(content[8]);
  const auto colour = std::to_integer<unsigned>(content[9]);
  if (info.width == 0 || info.height == 0 || info.width > kMaxNumber || info.height > kMaxNumber) {
    return Status(Code::corrupt, Detail("PNG: a size of ") << info.width << "x" << info.height, 16);
  }
  if (!is_known(colour, depth)) {
    return Status(Code::corrupt,
                  Detail("PNG: ") << depth << " bits a channel with colours of type " << colour,
                  24);
  }
  info.bit_depth = static_cast<int>(depth);
  info.colour = static_cast<PngColour>(colour);
  info.is_interlaced = content[12] != std::byte{0};
  return {};
}

}  // namespace

std::size_t PngInfo::channels() const noexcept {
  switch (colour) {
    case PngColour::rgb:
      return 3;
    case PngColour::grey_alpha:
      return 2;
    case PngColour::rgb_alpha:
      return 4;
    default:
      return 1;
  }
}

Result<PngInfo> read_png_info(ByteSpan data) noexcept {
  const bool is_png = data.size() >= kPngSignature.size() &&
                      std::equal(kPngSignature.begin(), kPngSignature.end(), data.begin(),
                                 [](std::uint8_t a, std::byte b) { return std::byte{a} == b; });
  if (!is_png) return Status(Code::corrupt, "not a PNG", 0);
  PngInfo info;
  for (std::size_t at = kPngSignature.size();;) {
    if (data.size() - at < kPngChunkFrame) return cut_short(data);
    const std::uint32_t size = load_u32_be(data.data() + at);
    const std::uint32_t name = load_u32_be(data.data() + at + 4);
    const bool is_first = at == kPngSignature.size();
    if (is_first != (name == png_chunk("IHDR")) || (is_first && size != kHeaderSize)) {
      return Status(Code::corrupt, "PNG: the header is not the first chunk",
                    static_cast<std::int64_t>(at));
    }
    if (name == png_chunk("IDAT")) return info;
    if (name == png_chunk("IEND")) {
      return Status(Code::corrupt, "PNG: it has no pixels", static_cast<std::int64_t>(at));
    }
    if (size > data.size() - at - kPngChunkFrame) return cut_short(data);
    if (is_first) {
      const Status status = read_header(data.data() + at + 8, info);
      if (!status.is_ok()) return status;
    }
    if (name == png_chunk("tRNS")) info.has_transparency = true;
    if (name == png_chunk("acTL")) info.is_animated = true;
    at += kPngChunkFrame + size;
  }
}

}  // namespace headrace
