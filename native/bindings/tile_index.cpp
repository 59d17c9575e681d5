#include "headrace/jpeg/tile_index.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "buffer.hpp"

namespace headrace::bindings {
namespace {

using IndexOrReason = std::pair<std::optional<nb::bytes>, std::string>;

IndexOrReason jpeg_tiles(const Buffer& data, unsigned tile) {
  const ByteSpan bytes = data.bytes();
  JpegTiles tiles;
  std::vector<std::byte> packed;
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = find_jpeg_tiles(bytes, tile, tiles);
    if (status.is_ok()) status = pack_jpeg_tiles(tiles, packed);
  }
  if (status.code() == Code::unsupported) return {std::nullopt, std::string(status.detail())};
  throw_if_error(status);
  return {nb::bytes(packed.data(), packed.size()), ""};
}

JpegTilesInfo jpeg_tiles_info(const Buffer& index) {
  JpegTiles tiles;
  // Tens of microseconds at most: the GIL is kept.
  throw_if_error(unpack_jpeg_tiles(index.bytes(), SIZE_MAX, tiles));
  return tiles.info;
}

}  // namespace

void bind_tile_index(nb::module_& module) {
  nb::class_<JpegTilesInfo>(module, "JpegTilesInfo", "What a tile index says of itself.")
      .def_ro("jpeg_size", &JpegTilesInfo::jpeg_size)
      .def_ro("jpeg_crc32c", &JpegTilesInfo::jpeg_crc32c)
      .def_ro("width", &JpegTilesInfo::width)
      .def_ro("height", &JpegTilesInfo::height)
      .def_ro("tile", &JpegTilesInfo::tile)
      .def_ro("components", &JpegTilesInfo::components)
      .def_ro("rows", &JpegTilesInfo::rows)
      .def_ro("columns", &JpegTilesInfo::columns);
  module.def("jpeg_tiles", jpeg_tiles, nb::arg("data"), nb::arg("tile") = kDefaultJpegTile,
             "Packed entry points for every tile-th MCU of every row of MCUs, and \"\"; or None "
             "and the reason why this kind of JPEG has none. Damage is an error.");
  module.def("jpeg_tiles_info", jpeg_tiles_info, nb::arg("index"),
             "Check a packed tile index and read its header.");
}

}  // namespace headrace::bindings
