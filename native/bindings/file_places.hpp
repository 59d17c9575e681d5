// Look-ups of files by path, the same for every table that can find them.
#pragma once

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "bindings.hpp"
#include "headrace/formats/path_index.hpp"

namespace headrace::bindings {

// Rows of shard, offset, size and CRC-32C, which is -1 if not known.
using PlaceColumns = Array<const std::int64_t, nb::shape<-1, 4>>;

using FoundPlace =
    std::tuple<std::int64_t, std::int64_t, std::int64_t, std::optional<std::int64_t>>;

// The bytes of the strings; they live as long as the list holds them.
inline std::vector<std::string_view> views_of(const nb::list& names) {
  std::vector<std::string_view> views;
  views.reserve(names.size());
  for (nb::handle name : names) {
    Py_ssize_t size = 0;
    const char* data =
        PyUnicode_Check(name.ptr()) != 0 ? PyUnicode_AsUTF8AndSize(name.ptr(), &size) : nullptr;
    if (data == nullptr) {
      PyErr_Clear();
      throw_invalid(Detail("name ") << views.size() << " is not a string of valid characters");
    }
    views.emplace_back(data, static_cast<std::size_t>(size));
  }
  return views;
}

template <typename Table>
std::optional<FoundPlace> find_file(const Table& table, std::string_view name) {
  FilePlace place{};
  if (!table.find(name, place)) return std::nullopt;
  const std::optional<std::int64_t> checksum =
      place.crc32c == kNoChecksum ? std::nullopt : std::optional(place.crc32c);
  return FoundPlace(place.shard, place.offset, place.size, checksum);
}

inline NewArray<std::int64_t, 2> columns_of(std::span<const FilePlace> places) {
  ResultMemory<std::int64_t> out(4 * places.size());
  std::size_t at = 0;
  for (const FilePlace& place : places) {
    for (const std::int64_t value : {place.shard, place.offset, place.size, place.crc32c}) {
      out.span()[at++] = value;
    }
  }
  return out.to_array(places.size(), 4);
}

template <typename Table>
NewArray<std::int64_t, 2> find_files(const Table& table, const nb::list& names) {
  const auto views = views_of(names);
  std::vector<FilePlace> places(views.size());
  {
    const Unlocked unlocked(views.size() >= Table::kLongLookups);
    table.find_many(views, places);
  }
  return columns_of(places);
}

}  // namespace headrace::bindings
