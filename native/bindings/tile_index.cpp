#include "headrace/jpeg/tile_index.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "buffer.hpp"

namespace headrace::bindings {
namespace {

using IndexOrReason = std::pair<std::optional<nb::bytes>, std::string>;

IndexOrReason make_packed(const Buffer& data, unsigned tile) {
  const ByteSpan bytes = data.bytes();
  TileIndex tile_index;
  std::vector<std::byte> packed;
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = make_tile_index(bytes, tile, tile_index);
    if (status.is_ok()) status = pack_tile_index(tile_index, packed);
  }
  if (status.code() == Code::unsupported) return {std::nullopt, std::string(status.detail())};
  throw_if_error(status);
  return {nb::bytes(packed.data(), packed.size()), ""};
}

using Places = NewArray<std::uint64_t, 1>;

std::tuple<Places, Places> locate(const U64Array& offsets, std::uint64_t packed_size,
                                  const Array<const std::int64_t, nb::ndim<1>>& numbers) {
  ResultMemory<std::uint64_t> begins(numbers.size()), sizes(numbers.size());
  Status status;
  {
    const Unlocked unlocked(numbers.size() >= Unlocked::kManyItems);
    status = locate_tile_indices(span_of(offsets), packed_size, span_of(numbers), begins.span(),
                                 sizes.span());
  }
  throw_if_error(status);
  return {begins.to_array(), sizes.to_array()};
}

TileIndexInfo tile_index_info(const Buffer& index) {
  TileIndex tile_index;
  // Tens of microseconds at most: the GIL is kept.
  throw_if_error(unpack_tile_index(index.bytes(), SIZE_MAX, tile_index));
  return tile_index.info;
}

}  // namespace

void bind_tile_index(nb::module_& module) {
  nb::class_<TileIndexInfo>(module, "TileIndexInfo", "What a tile index says of itself.")
      .def_ro("jpeg_size", &TileIndexInfo::jpeg_size)
      .def_ro("jpeg_crc32c", &TileIndexInfo::jpeg_crc32c)
      .def_ro("width", &TileIndexInfo::width)
      .def_ro("height", &TileIndexInfo::height)
      .def_ro("tile", &TileIndexInfo::tile)
      .def_ro("components", &TileIndexInfo::components)
      .def_ro("rows", &TileIndexInfo::rows)
      .def_ro("columns", &TileIndexInfo::columns);
  module.def("make_tile_index", make_packed, nb::arg("data"), nb::arg("tile") = kDefaultTile,
             "The packed tile index, with entry points for every tile-th MCU of every row of MCUs, "
             "and \"\"; or None "
             "and the reason why this kind of JPEG has none. Damage is an error.");
  module.def("locate_tile_indices", locate, nb::arg("offsets").noconvert(), nb::arg("packed_size"),
             nb::arg("numbers").noconvert(),
             "Where packed tile indices begin, and how long they are; 0 and 0 where their offsets "
             "make no sense.");
  module.def("tile_index_info", tile_index_info, nb::arg("index"),
             "Check a packed tile index and read its header.");
}

}  // namespace headrace::bindings
