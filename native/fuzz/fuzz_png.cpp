// A PNG by its headers and its pixels. Where the input's size is odd its checksums are set right
// first: else hardly a change of a chunk would come through.
#include <algorithm>
#include <cstdlib>
#include <span>

#include "core/png/inflate.hpp"
#include "core/png/libpng.hpp"
#include "fuzz.hpp"
#include "headrace/checksum.hpp"
#include "headrace/png.hpp"

namespace headrace::fuzz {
namespace {

constexpr std::uint64_t kMaxPixels = 1 << 20;
constexpr std::size_t kSignatureSize = 8;

void require(bool holds) {
  if (!holds) std::abort();
}

void set_checksums(std::span<std::byte> data) {
  for (std::size_t at = kSignatureSize; at + 12 <= data.size();) {
    const std::uint64_t size = load_u32_be(data.data() + at);
    if (size > data.size() - at - 12) return;
    const std::uint32_t value = crc32(data.subspan(at + 4, size + 4));
    for (unsigned i = 0; i < 4; ++i) {
      data[at + 8 + size + i] = static_cast<std::byte>(value >> (24 - 8 * i));
    }
    at += size + 12;
  }
}

using Decode = Status (*)(ByteSpan, ImageShape, MutableByteSpan) noexcept;

// What comes out does not depend on what was there.
void check_decoder(Decode decode, ByteSpan data, ImageShape shape, std::size_t pixel_size) {
  std::vector<std::byte> one(shape.width * shape.height * pixel_size, std::byte{0x11});
  std::vector<std::byte> other(one.size(), std::byte{0xEE});
  const Status status = decode(data, shape, one);
  require(decode(data, shape, other).code() == status.code());
  if (status.is_ok()) require(one == other);
}

// What is inflated at once libpng decodes, too, to the same pixels.
void compare(ByteSpan data, const PngInfo& info) {
  std::vector<std::uint8_t> one(std::size_t{info.width} * info.height * kRgbChannels);
  std::vector<std::uint8_t> other(one.size());
  const auto status = inflate_png(data, info, one.data());
  if (!status) return;
  require(decode_by_libpng(data, info, other.data()).code() == status->code());
  if (status->is_ok()) require(one == other);
}

void check(ByteSpan input) {
  std::vector<std::byte> data(input.begin(), input.end());
  if (data.size() % 2 == 1) set_checksums(data);
  const auto found = read_png_info(data);
  if (!found.is_ok()) {
    require(found.status().offset() <= static_cast<std::int64_t>(data.size()));
    return;
  }
  const PngInfo& info = found.value();
  const ImageShape shape{info.width, info.height};
  if (std::uint64_t{info.width} * info.height > kMaxPixels) return;
  check_decoder(decode_png, data, shape, kRgbChannels);
  if (info.is_plain()) compare(data, info);
  check_decoder(decode_deep_png, data, shape, 2 * info.channels());
}

}  // namespace

// Others are in the corpus.
std::vector<Input> seed_inputs() {
  return {{137, 80, 78,  71, 13, 10,  26, 10, 0,   0,   0,   13,  73,  72, 68,  82, 0, 0,
           0,   1,  0,   0,  0,  1,   8,  2,  0,   0,   0,   144, 119, 83, 222, 0,  0, 0,
           12,  73, 68,  65, 84, 120, 1,  99, 248, 207, 192, 0,   0,   3,  1,   1,  0, 219,
           125, 46, 188, 0,  0,  0,   0,  73, 69,  78,  68,  174, 66,  96, 130}};
}

}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headrace::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
