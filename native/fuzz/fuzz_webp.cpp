// A WebP by its header and its pixels.
#include <cstdlib>
#include <span>

#include "fuzz.hpp"
#include "headrace/webp.hpp"

namespace headrace::fuzz {
namespace {

constexpr std::uint64_t kMaxPixels = 1 << 16;

void require(bool holds) {
  if (!holds) std::abort();
}

// What comes out does not depend on what was there.
void check(ByteSpan data) {
  const auto found = read_webp_info(data);
  if (!found.is_ok()) return;
  const ImageShape shape{found.value().width, found.value().height};
  require(shape.width > 0 && shape.height > 0);
  if (std::uint64_t{shape.width} * shape.height > kMaxPixels) return;
  std::vector<std::byte> one(shape.width * shape.height * kRgbChannels, std::byte{0x11});
  std::vector<std::byte> other(one.size(), std::byte{0xEE});
  const Status status = decode_webp(data, shape, one);
  require(decode_webp(data, shape, other).code() == status.code());
  if (status.is_ok()) require(one == other);
}

}  // namespace

// Others are in the corpus.
std::vector<Input> seed_inputs() {
  return {{82, 73, 70, 70, 26, 0, 0, 0, 87, 69, 66, 80,  86, 80, 56, 76,  14,
           0,  0,  0,  47, 0,  0, 0, 0, 7,  16, 17, 253, 15, 68, 68, 255, 3}};
}

}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headrace::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
