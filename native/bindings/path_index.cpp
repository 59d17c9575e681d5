#include "headrace/formats/path_index.hpp"

#include "bindings.hpp"
#include "file_places.hpp"

namespace headrace::bindings {
namespace {

void add_files(PathIndex& index, const nb::list& names, const PlaceColumns& places) {
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
      .def("find", find_file<PathIndex>, nb::arg("name"),
           "Shard, offset, size and CRC-32C of a file, or None.")
      .def("find_many", find_files<PathIndex>, nb::arg("names"),
           "Rows of shard, offset, size and CRC-32C; the shard is -1 where there is no such file.");
}

}  // namespace headrace::bindings
