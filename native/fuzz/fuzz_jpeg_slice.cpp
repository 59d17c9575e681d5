// A slice of a JPEG against the whole of it. The last six bytes choose the window and the tiles.
#include <cstdlib>
#include <cstring>
#include <span>

#include "fuzz.hpp"
#include "penstock/jpeg_slice.hpp"
#include "penstock/jpeg_tiles.hpp"

namespace penstock::fuzz {
namespace {

constexpr std::uint64_t kMaxPixels = 1 << 18;
constexpr std::size_t kChoices = 6;

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

// The index is made for the JPEG, then one of its entries is changed if that is chosen.
bool make_index(ByteSpan data, ByteSpan choices, std::vector<std::byte>& packed) {
  JpegTiles tiles;
  const unsigned tile = 1 + std::to_integer<unsigned>(choices[4]) % 9;
  if (!find_jpeg_tiles(data, tile, tiles).is_ok()) return false;
  const auto change = std::to_integer<std::size_t>(choices[5]);
  if (change != 0) {
    const std::size_t at = change % tiles.positions.size();
    if (at > 0 && tiles.positions[at] > tiles.positions[at - 1] + 1) --tiles.positions[at];
    tiles.predictors[change % tiles.predictors.size()][0] ^= 5;
  }
  return pack_jpeg_tiles(tiles, packed).is_ok();
}

void compare(ByteSpan data, ImageShape shape, const Window& window, const JpegSlice& slice) {
  std::vector<std::byte> image(shape.width * shape.height * kRgbChannels);
  if (!decode_jpeg(data, {}, shape, image).is_ok()) return;
  const auto info = read_jpeg_info(slice.bytes);
  require(info.is_ok());
  const ImageShape part{info.value().width, info.value().height};
  std::vector<std::byte> pixels(part.width * part.height * kRgbChannels);
  require(decode_jpeg(slice.bytes, {}, part, pixels).is_ok());
  for (std::size_t y = 0; y < window.height; ++y) {
    const std::size_t from = ((slice.top + y) * part.width + slice.left) * kRgbChannels;
    const std::size_t whole = ((window.top + y) * shape.width + window.left) * kRgbChannels;
    require(std::memcmp(pixels.data() + from, image.data() + whole, window.width * kRgbChannels) ==
            0);
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
  std::vector<std::byte> packed;
  if (!make_index(data, choices, packed)) return;
  JpegSlice slice;
  const Status status = slice_jpeg(data, packed, window, slice);
  const bool is_changed = choices[5] != std::byte{0};
  if (!is_changed && status.is_ok()) compare(data, shape, window, slice);
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
      input.insert(input.end(), {choice, choice, 100, 150, choice, 0});
      inputs.push_back(input);
      input.back() = 9;
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
