#include "headrace/sqlite/file_table.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <array>
#include <utility>

#include "bindings.hpp"
#include "buffer.hpp"
#include "file_places.hpp"
#include "headrace/sqlite/index_check.hpp"
#include "headrace/sqlite/page_check.hpp"

namespace headrace::bindings {
namespace {

// The table and the mapped file that it looks into. Held as a buffer, not by DLPack: an array that
// is still held so when the interpreter ends is never let go.
class MappedFileTable {
 public:
  MappedFileTable(Buffer file, std::uint32_t table_root, std::uint32_t path_index_root,
                  const std::array<std::uint8_t, kFileColumns>& columns)
      : file_(std::move(file)),
        table_(value_or_throw(
            FileTable::open(file_.bytes(), {table_root, path_index_root, columns}))) {}

  static constexpr std::size_t kLongLookups = 64;

  [[nodiscard]] bool find(std::string_view path, FilePlace& place) const noexcept {
    return table_.find(path, place);
  }
  void find_many(std::span<const std::string_view> paths,
                 std::span<FilePlace> places) const noexcept {
    table_.find_many(paths, places);
  }
  [[nodiscard]] const FileTable& table() const noexcept { return table_; }

 private:
  Buffer file_;
  FileTable table_;
};

void new_table(MappedFileTable* self, Buffer file, std::uint32_t table_root,
               std::uint32_t path_index_root, const nb::sequence& places) {
  std::array<std::uint8_t, kFileColumns> columns{};
  if (nb::len(places) != kFileColumns) throw_invalid(Detail("a place for each column is needed"));
  for (std::size_t i = 0; i < kFileColumns; ++i) columns[i] = nb::cast<std::uint8_t>(places[i]);
  new (self) MappedFileTable(std::move(file), table_root, path_index_root, columns);
}

// Files whose place is not made of numbers that a place can have are left out.
void fill_index(const MappedFileTable& table, PathIndex& index) {
  Status status;
  {
    nb::gil_scoped_release unlocked;
    FileTable::Rows rows(table.table());
    FileRow row;
    for (;;) {
      auto more = rows.next(row);
      if (!more.is_ok()) status = more.status();
      if (!more.is_ok() || !more.value()) break;
      const auto place = place_of(row);
      if (place) status = index.add(row.path, *place);
      if (!status.is_ok()) break;
    }
  }
  throw_if_error(status);
}

IndexKey index_key_of(std::string_view name) {
  if (name == "path") return IndexKey::path;
  if (name == "parent") return IndexKey::parent;
  if (name == "address") return IndexKey::address;
  throw_invalid(Detail("unknown key '") << name << "'; known are path, parent and address");
}

bool agrees_with(const MappedFileTable& table,
                 const std::vector<std::pair<std::uint32_t, std::string_view>>& indexes) {
  std::vector<FileIndex> wanted;
  for (const auto& [root, key] : indexes) wanted.push_back({root, index_key_of(key)});
  nb::gil_scoped_release unlocked;
  return indexes_agree(table.table(), wanted);
}

bool is_sound(const MappedFileTable& table, const std::vector<std::uint32_t>& roots) {
  nb::gil_scoped_release unlocked;
  return pages_are_sound(table.table().file(), roots);
}

// Makes objects of a class of named tuples, without a call of Python for each.
class RowMaker {
 public:
  explicit RowMaker(const nb::type_object& kind) : kind_(kind) {
    auto* type = reinterpret_cast<PyTypeObject*>(kind.ptr());
    if (PyType_IsSubtype(type, &PyTuple_Type) == 0) throw_invalid(Detail("kind must be a tuple"));
    allocate_ = reinterpret_cast<allocfunc>(PyType_GetSlot(type, Py_tp_alloc));
  }

  [[nodiscard]] nb::object make(const FileRow& row) const {
    nb::object made = nb::steal(
        allocate_(reinterpret_cast<PyTypeObject*>(kind_.ptr()), Py_ssize_t{kFileColumns}));
    if (!made.is_valid()) throw nb::python_error();
    put(made, 0, PyUnicode_FromStringAndSize(row.path.data(), std::ssize(row.path)));
    for (std::size_t i = 1; i < kFileColumns; ++i) {
      put(made, i, row.numbers[i] ? PyLong_FromLongLong(*row.numbers[i]) : Py_NewRef(Py_None));
    }
    return made;
  }

 private:
  static void put(const nb::object& tuple, std::size_t i, PyObject* value) {
    if (value == nullptr || PyTuple_SetItem(tuple.ptr(), static_cast<Py_ssize_t>(i), value) != 0) {
      throw nb::python_error();
    }
  }

  nb::type_object kind_;
  allocfunc allocate_ = nullptr;
};

// A place in the table, for one thread.
class MappedRows {
 public:
  MappedRows(const MappedFileTable& table, const nb::type_object& kind)
      : maker_(kind), rows_(table.table()) {}

  std::pair<nb::typed<nb::list, nb::str>, NewArray<std::int64_t, 2>> places(std::size_t count) {
    nb::list names;
    std::vector<FilePlace> places;
    FileRow row;
    while (places.size() < count && value_or_throw(rows_.next(row))) {
      const auto place = place_of(row);
      if (!place) throw_if_error(Status(Code::corrupt, "a place is not made of numbers"));
      // nb::str would throw away what Python says about a path that is not UTF-8.
      PyObject* name = PyUnicode_FromStringAndSize(row.path.data(), std::ssize(row.path));
      if (name == nullptr) throw nb::python_error();
      names.append(nb::steal<nb::str>(name));
      places.push_back(*place);
    }
    return {nb::typed<nb::list, nb::str>(std::move(names)), columns_of(places)};
  }

  nb::list block(std::size_t count) {
    nb::list out;
    FileRow row;
    while (out.size() < count && value_or_throw(rows_.next(row))) out.append(maker_.make(row));
    return out;
  }

 private:
  RowMaker maker_;
  FileTable::Rows rows_;
};

}  // namespace

void bind_file_table(nb::module_& module) {
  nb::class_<MappedFileTable>(module, "FileTable",
                              "The files of an archive, straight from its mapped SQLite file.")
      .def("__init__", new_table, nb::arg("file"), nb::arg("table_root"),
           nb::arg("path_index_root"), nb::arg("columns"),
           "Pages where the table and its index of paths begin, and where path, shard, offset, "
           "size, crc32c, mode, uid, gid and mtime_ns stand in a row.")
      .def("find", find_file<MappedFileTable>, nb::arg("name"),
           "Shard, offset, size and CRC-32C of a file, or None.")
      .def("find_many", find_files<MappedFileTable>, nb::arg("names"),
           "Rows of shard, offset, size and CRC-32C; the shard is -1 where there is no such file.")
      .def("fill", fill_index, nb::arg("index"), "Add all files to a PathIndex.")
      .def("is_sound", is_sound, nb::arg("roots"),
           "All pages of the file fit together, when its trees begin at these pages; False also "
           "where that cannot be found out.")
      .def(
          "agrees_with", agrees_with, nb::arg("indexes"),
          "Indexes of the table, each a first page and 'path', 'parent' or 'address', say what the "
          "table says and are in order; False also where that cannot be found out.");
  nb::class_<MappedRows>(module, "FileRows", "Goes through the rows of a FileTable.")
      .def(nb::init<const MappedFileTable&, const nb::type_object&>(), nb::arg("table"),
           nb::arg("kind"), nb::keep_alive<1, 2>(),
           "Rows become objects of this class of named tuples with nine fields.")
      .def("places", &MappedRows::places, nb::arg("count"),
           "Paths of the next rows, at most so many, and rows of shard, offset, size and CRC-32C; "
           "NativeError 'corrupt' where a place is something else.")
      .def("block", &MappedRows::block, nb::arg("count"),
           "The next rows, at most so many; none at the end.");
}

}  // namespace headrace::bindings
