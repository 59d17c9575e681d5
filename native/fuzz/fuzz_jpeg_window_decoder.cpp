// Windows by our own decoder against libjpeg, at a level that is chosen; and their samples in 16
// bits.
#include "headrace/cpu.hpp"
#include "headrace/jpeg/window_decoder.hpp"
#include "jpeg_input.hpp"

namespace headrace::fuzz {
namespace {

constexpr std::uint64_t kMaxPixels = 1 << 18;

// What is decoded whole by our own decoder is no damage to libjpeg. A part may be sound where
// the rest is not.
void compare(const JpegInput& input, const DecodedWindow& decoded) {
  const std::vector<std::byte> image = decode_whole(input.data, input.shape);
  const Window& window = input.window;
  if (!image.empty()) {
    require_same(image, input, decoded.pixels, decoded.row_stride);
  } else {
    require(window.width < input.shape.width || window.height < input.shape.height);
  }
}

// All of them can be read, and the window's are among them.
void check_samples(const JpegInput& input, const DecodedSamples& samples) {
  for (std::size_t c = 0; c < samples.count; ++c) {
    const SampleView& view = samples.components[c];
    const std::size_t h = c == 0 ? 1 : samples.h;
    const std::size_t v = c == 0 ? 1 : samples.v;
    require(view.left * h <= input.window.left && view.top * v <= input.window.top);
    require((view.left + view.shape.width) * h >= input.window.left + input.window.width);
    require((view.top + view.shape.height) * v >= input.window.top + input.window.height);
    static volatile std::uint8_t seen;
    for (std::size_t y = 0; y < view.shape.height; ++y) {
      for (std::size_t x = 0; x < view.shape.width; ++x) seen = view.samples[y * view.stride + x];
    }
    static_cast<void>(seen);
  }
}

void check(ByteSpan bytes) {
  JpegInput input;
  if (!read_input(bytes, kMaxPixels, input)) return;
  const unsigned levels = static_cast<unsigned>(hardware_simd_level()) + 1;
  require(set_simd_level(static_cast<SimdLevel>(input.other % levels)).is_ok());
  static JpegWindowDecoder decoder;  // its memory is to survive damaged images
  DecodedWindow decoded;
  if (decoder.decode({input.data, {}, {}}, input.shape, input.window, decoded).is_ok()) {
    compare(input, decoded);
  }
  std::vector<std::byte> packed;
  if (!make_index(input, packed)) return;
  const IndexedJpeg indexed{input.data, packed, {}};
  const Status status = decoder.decode(indexed, input.shape, input.window, decoded);
  if (input.change == 0 && status.is_ok()) compare(input, decoded);
  DecodedSamples samples;
  if (decoder.decode_samples(indexed, input.shape, input.window, samples).is_ok()) {
    check_samples(input, samples);
  }
}

}  // namespace

std::vector<Input> seed_inputs() { return jpeg_inputs(); }

}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headrace::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
