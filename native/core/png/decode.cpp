#include "core/png/inflate.hpp"
#include "core/png/libpng.hpp"
#include "headrace/png.hpp"

namespace headrace {
namespace {

// Deflate makes at most so many bytes of one.
constexpr std::uint64_t kMaxInflation = 1032;

// Memory is asked for only where the data can stand for it.
Status check_size(ByteSpan data, const PngInfo& info, ImageShape want, std::size_t pixel_size,
                  std::size_t out_size) noexcept {
  if (info.width != want.width || info.height != want.height) {
    return Status(Code::corrupt, Detail("PNG: it has ")
                                     << info.width << "x" << info.height << " pixels, not "
                                     << want.width << "x" << want.height);
  }
  std::uint64_t size = 0, bits = 0;
  if (!checked_multiply(std::uint64_t{info.width} * info.height, pixel_size, size) ||
      size != out_size) {
    return Status(Code::invalid_argument, "the output does not have the size of the picture");
  }
  const auto pixel_bits = info.channels() * static_cast<std::size_t>(info.bit_depth);
  if (!checked_multiply(std::uint64_t{info.width} * info.height, pixel_bits, bits) ||
      bits / 8 > data.size() * kMaxInflation) {
    return Status(Code::truncated, Detail("PNG: ")
                                       << data.size() << " bytes cannot hold " << info.width << "x"
                                       << info.height << " pixels");
  }
  return {};
}

}  // namespace

Status decode_png(ByteSpan data, ImageShape want, MutableByteSpan out) noexcept {
  const auto found = read_png_info(data);
  if (!found.is_ok()) return found.status();
  const PngInfo& info = found.value();
  const Status status = check_size(data, info, want, kRgbChannels, out.size());
  if (!status.is_ok()) return status;
  if (!info.is_plain()) {
    return Status(Code::unsupported,
                  "PNG: animated, or with a transparent colour, or of more than 8 bits a channel");
  }
  auto* pixels = reinterpret_cast<std::uint8_t*>(out.data());
  const auto inflated = inflate_png(data, info, pixels);
  return inflated ? *inflated : decode_by_libpng(data, info, pixels);
}

Status decode_deep_png(ByteSpan data, ImageShape want, MutableByteSpan out) noexcept {
  const auto found = read_png_info(data);
  if (!found.is_ok()) return found.status();
  const PngInfo& info = found.value();
  if (info.bit_depth != 16) return Status(Code::unsupported, "PNG: it has no 16 bits a channel");
  const Status status = check_size(data, info, want, 2 * info.channels(), out.size());
  if (!status.is_ok()) return status;
  return decode_deep_by_libpng(data, info, reinterpret_cast<std::uint8_t*>(out.data()));
}

}  // namespace headrace
