// A window of a JPEG by libjpeg against the whole of it, at a scale that is chosen.
#include "jpeg_input.hpp"

namespace headrace::fuzz {
namespace {

constexpr std::uint64_t kMaxPixels = 1 << 20;

void check(ByteSpan bytes) {
  JpegInput input;
  if (!read_input(bytes, kMaxPixels, input)) return;
  const unsigned denominator = 1U << (input.other % 4);
  DecodedWindow decoded;
  const bool is_decoded = decode_jpeg_window(input.data, {.scale_denominator = denominator},
                                             input.shape, input.window, decoded)
                              .is_ok();
  const std::vector<std::byte> image = decode_whole(input.data, input.shape);
  require(is_decoded || image.empty());
  if (!image.empty() && denominator == 1) {
    require_same(image, input, decoded.pixels, decoded.row_stride);
  }
}

}  // namespace

std::vector<Input> seed_inputs() { return jpeg_inputs(); }

}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headrace::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
