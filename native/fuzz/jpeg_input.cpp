#include "jpeg_input.hpp"

#include <cstring>

#include "headrace/jpeg/codec.hpp"
#include "headrace/jpeg/tile_index.hpp"

namespace headrace::fuzz {
namespace {

constexpr std::size_t kChoices = 7;

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

}  // namespace

bool read_input(ByteSpan bytes, std::uint64_t most_pixels, JpegInput& input) {
  if (bytes.size() < kChoices) return false;
  const ByteSpan choices = bytes.last(kChoices);
  input.data = bytes.first(bytes.size() - kChoices);
  const auto info = read_jpeg_info(input.data);
  if (!info.is_ok()) return false;
  input.shape = {info.value().width, info.value().height};
  if (std::uint64_t{input.shape.width} * input.shape.height > most_pixels) return false;
  input.window = choose_window(choices, input.shape);
  input.tile = 1 + std::to_integer<unsigned>(choices[4]) % 9;
  input.change = std::to_integer<std::size_t>(choices[5]);
  input.other = std::to_integer<unsigned>(choices[6]);
  return true;
}

bool make_index(const JpegInput& input, std::vector<std::byte>& packed) {
  TileIndex tile_index;
  if (!make_tile_index(input.data, input.tile, tile_index).is_ok()) return false;
  if (input.change != 0) {
    const std::size_t at = input.change % tile_index.positions.size();
    if (at > 0 && tile_index.positions[at] > tile_index.positions[at - 1] + 1)
      --tile_index.positions[at];
    tile_index.predictors[input.change % tile_index.predictors.size()][0] ^= 5;
  }
  return pack_tile_index(tile_index, packed).is_ok();
}

std::vector<std::byte> decode_whole(ByteSpan data, ImageShape shape) {
  std::vector<std::byte> image(shape.width * shape.height * kRgbChannels);
  if (!decode_jpeg(data, {}, shape, image).is_ok()) image.clear();
  return image;
}

void require_same(const std::vector<std::byte>& image, const JpegInput& input,
                  const std::byte* pixels, std::size_t row_stride) {
  const Window& window = input.window;
  for (std::size_t y = 0; y < window.height; ++y) {
    const std::size_t whole = ((window.top + y) * input.shape.width + window.left) * kRgbChannels;
    require(std::memcmp(pixels + y * row_stride, image.data() + whole,
                        window.width * kRgbChannels) == 0);
  }
}

std::vector<std::byte> make_jpeg(ImageShape shape, int quality) {
  std::vector<std::byte> pixels(shape.width * shape.height * kRgbChannels);
  for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<std::byte>(i * i % 251);
  std::vector<std::byte> file;
  require(encode_jpeg(pixels, shape, shape.width * kRgbChannels, quality, file).is_ok());
  return file;
}

std::vector<Input> jpeg_inputs() {
  std::vector<Input> inputs;
  for (const ImageShape shape : {ImageShape{1, 1}, {16, 16}, {75, 43}}) {
    const std::vector<std::byte> file = make_jpeg(shape, 60);
    const auto* begin = reinterpret_cast<const std::uint8_t*>(file.data());
    for (const std::uint8_t choice : Input{0, 70, 140, 210}) {
      for (const std::uint8_t change : Input{0, 9}) {
        Input input(begin, begin + file.size());
        input.insert(input.end(), {choice, choice, 100, 150, choice, change, choice});
        inputs.push_back(input);
      }
    }
  }
  return inputs;
}

}  // namespace headrace::fuzz
