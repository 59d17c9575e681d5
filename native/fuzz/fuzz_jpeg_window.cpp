// A window of a JPEG against the whole of it. The last five bytes choose the window and its scale.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <span>

#include "fuzz.hpp"
#include "penstock/jpeg_window.hpp"

namespace penstock::fuzz {
namespace {

constexpr std::uint64_t kMaxPixels = 1 << 20;
constexpr std::size_t kChoices = 5;

void require(bool holds) {
  if (!holds) std::abort();
}

// A share of [0, limit) that the byte stands for.
std::size_t share(std::byte byte, std::size_t limit) {
  return std::to_integer<std::size_t>(byte) * limit / 256;
}

Window choose_window(ByteSpan choices, ImageShape shape) {
  const std::size_t width = 1 + share(choices[0], shape.width);
  const std::size_t height = 1 + share(choices[1], shape.height);
  return {share(choices[2], shape.width - width + 1), share(choices[3], shape.height - height + 1),
          width, height};
}

void check_pixels(const DecodedWindow& decoded, std::span<const std::byte> image,
                  ImageShape shape) {
  const Window& window = decoded.window;
  for (std::size_t y = 0; y < window.height; ++y) {
    const std::byte* whole =
        image.data() + ((window.top + y) * shape.width + window.left) * kRgbChannels;
    require(std::memcmp(decoded.pixels + y * decoded.row_stride, whole,
                        window.width * kRgbChannels) == 0);
  }
}

void check(ByteSpan input) {
  if (input.size() < kChoices) return;
  const ByteSpan data = input.first(input.size() - kChoices);
  const ByteSpan choices = input.last(kChoices);
  const auto info = read_jpeg_info(data);
  if (!info.is_ok()) return;
  const ImageShape shape{info.value().width, info.value().height};
  if (std::uint64_t{shape.width} * shape.height > kMaxPixels) return;
  const Window window = choose_window(choices, shape);
  const unsigned denominator = 1U << (std::to_integer<unsigned>(choices[4]) % 4);
  DecodedWindow decoded;
  const bool is_decoded =
      decode_jpeg_window(data, {.scale_denominator = denominator}, shape, window, decoded).is_ok();
  std::vector<std::byte> image(shape.width * shape.height * kRgbChannels);
  const bool is_whole = decode_jpeg(data, {}, shape, image).is_ok();
  require(is_decoded || !is_whole);
  if (is_whole && denominator == 1) check_pixels(decoded, image, shape);
}

}  // namespace

std::vector<Input> seed_inputs() {
  std::vector<Input> inputs;
  for (const ImageShape shape : {ImageShape{1, 1}, {16, 16}, {75, 43}}) {
    std::vector<std::byte> pixels(shape.width * shape.height * kRgbChannels);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::byte>(i * i % 251);
    std::vector<std::byte> file;
    require(encode_jpeg(pixels, shape, shape.width * kRgbChannels, 60, file).is_ok());
    for (const std::uint8_t choice : Input{0, 70, 140, 210}) {
      const auto* begin = reinterpret_cast<const std::uint8_t*>(file.data());
      Input input(begin, begin + file.size());
      input.insert(input.end(), {choice, choice, 100, 150, choice});
      inputs.push_back(input);
    }
  }
  return inputs;
}

}  // namespace penstock::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  penstock::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
