// A packed index of entry points, and entry points of a JPEG: the first byte chooses.
#include <algorithm>

#include "headrace/checksum.hpp"
#include "headrace/jpeg/codec.hpp"
#include "headrace/jpeg/tile_index.hpp"
#include "jpeg_input.hpp"

namespace headrace::fuzz {
namespace {

void check_tiles(const JpegTiles& tiles) {
  require(std::is_sorted(tiles.positions.begin(), tiles.positions.end()));
  require(tiles.positions.size() == tiles.rows * tiles.info.columns + 1);
  require(tiles.predictors.size() == tiles.rows * tiles.info.columns);
  require(tiles.positions.back() <= std::uint64_t{tiles.info.jpeg_size} * 8);
}

// The checksum is made right: nothing behind it would be reached otherwise.
void check_index(ByteSpan input) {
  std::vector<std::byte> packed(input.begin(), input.end());
  const std::uint32_t crc = crc32c(packed);
  for (unsigned i = 0; i < 4; ++i) packed.push_back(static_cast<std::byte>(crc >> 8 * i));
  JpegTiles tiles;
  if (!unpack_jpeg_tiles(packed, SIZE_MAX, tiles).is_ok()) return;
  check_tiles(tiles);
}

void check_jpeg(ByteSpan data, unsigned tile) {
  JpegTiles tiles;
  const Status status = find_jpeg_tiles(data, tile, tiles);
  if (!status.is_ok()) {
    require(status.offset() <= static_cast<std::int64_t>(data.size()));
    return;
  }
  check_tiles(tiles);
  std::vector<std::byte> packed;
  require(pack_jpeg_tiles(tiles, packed).is_ok());
  JpegTiles again;
  require(unpack_jpeg_tiles(packed, SIZE_MAX, again).is_ok());
  require(again.positions == tiles.positions && again.predictors == tiles.predictors);
}

void check(ByteSpan input) {
  if (input.empty()) return;
  const auto choice = std::to_integer<unsigned>(input[0]);
  if (choice == 0) return check_index(input.subspan(1));
  check_jpeg(input.subspan(1), choice);
}

Input to_input(std::uint8_t choice, ByteSpan bytes) {
  Input input{choice};
  for (const std::byte byte : bytes) input.push_back(std::to_integer<std::uint8_t>(byte));
  return input;
}

}  // namespace

std::vector<Input> seed_inputs() {
  std::vector<Input> inputs;
  for (const ImageShape shape : {ImageShape{1, 1}, {16, 16}, {75, 43}}) {
    const std::vector<std::byte> file = make_jpeg(shape, 60);
    JpegTiles tiles;
    require(find_jpeg_tiles(file, 2, tiles).is_ok());
    std::vector<std::byte> packed;
    require(pack_jpeg_tiles(tiles, packed).is_ok());
    inputs.push_back(to_input(2, file));
    inputs.push_back(to_input(0, ByteSpan(packed).first(packed.size() - 4)));
  }
  return inputs;
}

}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headrace::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
