#include "penstock/path_index.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>

#include <optional>
#include <string_view>
#include <tuple>
#include <vector>

#include "bindings.hpp"

namespace penstock::bindings {
namespace {

using Columns = Array<const std::int64_t, nb::shape<-1, 4>>;
using Found = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::optional<std::int64_t>>;

// The bytes of the strings; they live as long as the list holds them.
std::vector<std::string_view> views_of(const nb::list& names) {
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

void add_files(PathIndex& index, const nb::list& names, const Columns& places) {
  const auto views = views_of(names);
  if (views.size() != places.shape(0)) throw_invalid(Detail("as many places as names are needed"));
  const std::int64_t* row = places.data();
  Status status;
  {
    nb::gil_scoped_release unlocked;
    for (std::size_t i = 0; i < views.size() && status.is_ok(); ++i, row += 4) {
      status = index.add(views[i], {row[0], row[1], row[2], row[3]});
    }
  }
  throw_if_error(status);
}

std::optional<Found> find_file(const PathIndex& index, std::string_view name) {
  FilePlace place{};
  if (!index.find(name, place)) return std::nullopt;
  const std::optional<std::int64_t> checksum =
      place.crc32c == kNoChecksum ? std::nullopt : std::optional(place.crc32c);
  return Found(place.shard, place.offset, place.size, checksum);
}

NewArray<std::int64_t, 2> find_files(const PathIndex& index, const nb::list& names) {
  static_assert(sizeof(FilePlace) == 4 * sizeof(std::int64_t));
  const auto views = views_of(names);
  std::vector<FilePlace> places(views.size());
  ResultMemory<std::int64_t> out(4 * views.size());
  {
    nb::gil_scoped_release unlocked;
    index.find_many(views, places);
    std::size_t at = 0;
    for (const FilePlace& place : places) {
      for (const std::int64_t value : {place.shard, place.offset, place.size, place.crc32c}) {
        out.span()[at++] = value;
      }
    }
  }
  return out.to_array(views.size(), 4);
}

}  // namespace

void bind_path_index(nb::module_& module) {
  nb::class_<PathIndex>(module, "PathIndex",
                        "Where the files of an archive are, by path, in about 50 bytes a file.")
      .def(nb::init<std::size_t, std::uint64_t>(), nb::arg("capacity"), nb::arg("key"),
           "Room for so many files; key is a random number.")
      .def("__len__", &PathIndex::size, "Number of files.")
      .def_prop_ro("memory_bytes", &PathIndex::memory_bytes, "Memory of the table.")
      .def("add", add_files, nb::arg("names"), nb::arg("places"),
           "Add files with rows of shard, offset, size and CRC-32C, which is -1 if not known.")
      .def("find", find_file, nb::arg("name"),
           "Shard, offset, size and CRC-32C of a file, or None.")
      .def("find_many", find_files, nb::arg("names"),
           "Rows of shard, offset, size and CRC-32C; the shard is -1 where there is no such file.");
}

}  // namespace penstock::bindings
