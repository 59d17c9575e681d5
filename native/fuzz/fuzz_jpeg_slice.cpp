// A slice of a JPEG against the whole of it.
#include "headrace/jpeg/codec.hpp"
#include "headrace/jpeg/slice.hpp"
#include "jpeg_input.hpp"

namespace headrace::fuzz {
namespace {

constexpr std::uint64_t kMaxPixels = 1 << 18;

void compare(const JpegInput& input, const JpegSlice& slice) {
  const std::vector<std::byte> image = decode_whole(input.data, input.shape);
  if (image.empty()) return;
  const auto info = read_jpeg_info(slice.bytes);
  require(info.is_ok());
  const ImageShape part{info.value().width, info.value().height};
  const std::vector<std::byte> pixels = decode_whole(slice.bytes, part);
  require(!pixels.empty());
  require_same(image, input, pixels.data() + (slice.top * part.width + slice.left) * kRgbChannels,
               part.width * kRgbChannels);
}

void check(ByteSpan bytes) {
  JpegInput input;
  if (!read_input(bytes, kMaxPixels, input)) return;
  std::vector<std::byte> packed;
  if (!make_index(input, packed)) return;
  JpegSlice slice;
  const Status status = slice_jpeg(input.data, packed, input.window, slice);
  if (input.change == 0 && status.is_ok()) compare(input, slice);
}

}  // namespace

std::vector<Input> seed_inputs() { return jpeg_inputs(); }

}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headrace::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
