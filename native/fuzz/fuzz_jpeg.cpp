// Header, decoding, and encoding of what was decoded.
#include "headrace/jpeg/codec.hpp"
#include "jpeg_input.hpp"

namespace headrace::fuzz {
namespace {

constexpr std::uint64_t kMaxPixels = 1 << 20;

void check_encoder(ByteSpan pixels, ImageShape shape, int quality) {
  std::vector<std::byte> file;
  require(encode_jpeg(pixels, shape, shape.width * kRgbChannels, quality, file).is_ok());
  std::vector<std::byte> again(pixels.size());
  require(decode_jpeg(file, {}, shape, again).is_ok());
}

void check(ByteSpan data) {
  const auto info = read_jpeg_info(data);
  if (!info.is_ok()) {
    require(info.status().offset() <= static_cast<std::int64_t>(data.size()));
    return;
  }
  const ImageShape shape{info.value().width, info.value().height};
  if (std::uint64_t{shape.width} * shape.height > kMaxPixels) return;
  std::vector<std::byte> pixels(shape.width * shape.height * kRgbChannels);
  const JpegDecodeOptions options{.fast_dct = data.size() % 2 == 1};
  if (!decode_jpeg(data, options, shape, pixels).is_ok()) return;
  check_encoder(pixels, shape, 1 + static_cast<int>(data.size() % 100));
}

}  // namespace

std::vector<Input> seed_inputs() {
  std::vector<Input> inputs;
  for (const ImageShape shape : {ImageShape{1, 1}, {16, 16}, {37, 21}}) {
    for (const int quality : {10, 95}) {
      const std::vector<std::byte> file = make_jpeg(shape, quality);
      const auto* begin = reinterpret_cast<const std::uint8_t*>(file.data());
      inputs.emplace_back(begin, begin + file.size());
    }
  }
  return inputs;
}

}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headrace::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
