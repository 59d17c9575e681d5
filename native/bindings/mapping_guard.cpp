// A guard owns the mapping it guards, and lends it as a buffer: arrays on the guard keep the guard
// alive, and so the guard goes after the last array and before the mapping. There is no cycle.
#include "headrace/io/mapping_guard.hpp"

#include "bindings.hpp"
#include "headrace/io/file_mapping.hpp"

namespace headrace::bindings {
namespace {

class Guard {
 public:
  explicit Guard(int fd)
      : mapping_(map(fd)), guard_(value_or_throw(MappingGuard::create(mapping_.bytes()))) {}

  [[nodiscard]] std::uint64_t faults() const noexcept { return guard_.faults(); }
  [[nodiscard]] ByteSpan bytes() const noexcept { return mapping_.bytes(); }

 private:
  static FileMapping map(int fd) {
    Result<FileMapping> result = FileMapping::create(fd);
    if (!result.is_ok()) throw_os_error(static_cast<int>(result.status().offset()), nullptr);
    return std::move(result.value());
  }

  FileMapping mapping_;
  MappingGuard guard_;  // goes before the mapping
};

int get_guarded_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  const Guard* guard = nb::inst_ptr<Guard>(self);
  const ByteSpan bytes = guard->bytes();
  return PyBuffer_FillInfo(view, self, const_cast<std::byte*>(bytes.data()),
                           static_cast<Py_ssize_t>(bytes.size()), 1, flags);
}

PyType_Slot mapping_guard_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_guarded_buffer)},
                                     {0, nullptr}};

}  // namespace

void bind_mapping_guard(nb::module_& module) {
  nb::class_<Guard>(
      module, "MappingGuard", nb::type_slots(mapping_guard_slots),
      "A mapped file whose missing pages read as zeros, instead of ending the process.\n\n"
      "It is a read-only buffer of the file's bytes: use arrays on it, and it lives as long as\n"
      "they do. The file may be closed.")
      .def(nb::init<int>(), nb::arg("fd"))
      .def_prop_ro("faults", &Guard::faults,
                   "Pages that could not be read in this process, so far.");
}

}  // namespace headrace::bindings
