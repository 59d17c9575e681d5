// A packed tile index, and the tile index of a JPEG: the first byte chooses.
#include <algorithm>

#include "headrace/checksum.hpp"
#include "headrace/jpeg/codec.hpp"
#include "headrace/jpeg/tile_index.hpp"
#include "jpeg_input.hpp"

namespace headrace::fuzz {
namespace {

void check_tile_index(const TileIndex& tile_index) {
  require(std::is_sorted(tile_index.positions.begin(), tile_index.positions.end()));
  require(tile_index.positions.size() == tile_index.rows * tile_index.info.columns + 1);
  require(tile_index.predictors.size() == tile_index.rows * tile_index.info.columns);
  require(tile_index.positions.back() <= std::uint64_t{tile_index.info.jpeg_size} * 8);
}

// The checksum is made right: nothing behind it would be reached otherwise.
void check_index(ByteSpan input) {
  std::vector<std::byte> packed(input.begin(), input.end());
  const std::uint32_t crc = crc32c(packed);
  for (unsigned i = 0; i < 4; ++i) packed.push_back(static_cast<std::byte>(crc >> 8 * i));
  TileIndex tile_index;
  if (!unpack_tile_index(packed, SIZE_MAX, tile_index).is_ok()) return;
  check_tile_index(tile_index);
}

void check_jpeg(ByteSpan data, unsigned tile) {
  TileIndex tile_index;
  const Status status = make_tile_index(data, tile, tile_index);
  if (!status.is_ok()) {
    require(status.offset() <= static_cast<std::int64_t>(data.size()));
    return;
  }
  check_tile_index(tile_index);
  std::vector<std::byte> packed;
  require(pack_tile_index(tile_index, packed).is_ok());
  TileIndex again;
  require(unpack_tile_index(packed, SIZE_MAX, again).is_ok());
  require(again.positions == tile_index.positions && again.predictors == tile_index.predictors);
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
    TileIndex tile_index;
    require(make_tile_index(file, 2, tile_index).is_ok());
    std::vector<std::byte> packed;
    require(pack_tile_index(tile_index, packed).is_ok());
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
