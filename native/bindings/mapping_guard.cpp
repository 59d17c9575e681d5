// A guard holds the buffer of the mapping it guards, and lends it as a buffer of its own: arrays on
// the guard keep the guard alive, the guard keeps the mapping alive, and so the guard goes after
// the last array and before the mapping. There is no cycle.
#include "penstock/mapping_guard.hpp"

#include "bindings.hpp"
#include "buffer.hpp"

namespace penstock::bindings {
namespace {

class Guard {
 public:
  explicit Guard(Buffer buffer)
      : buffer_(std::move(buffer)), guard_(value_or_throw(MappingGuard::create(buffer_.bytes()))) {}

  [[nodiscard]] std::uint64_t faults() const noexcept { return guard_.faults(); }
  [[nodiscard]] ByteSpan bytes() const noexcept { return buffer_.bytes(); }

 private:
  Buffer buffer_;
  MappingGuard guard_;  // goes before the buffer
};

int get_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  const Guard* guard = nb::inst_ptr<Guard>(self);
  const ByteSpan bytes = guard->bytes();
  return PyBuffer_FillInfo(view, self, const_cast<std::byte*>(bytes.data()),
                           static_cast<Py_ssize_t>(bytes.size()), 1, flags);
}

PyType_Slot slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_buffer)}, {0, nullptr}};

}  // namespace

void bind_mapping_guard(nb::module_& module) {
  nb::class_<Guard>(
      module, "MappingGuard", nb::type_slots(slots),
      "Makes missing pages of a mapped file read as zeros, instead of ending the process.\n\n"
      "Holds the mapping it is given and is a read-only buffer of the same bytes: use arrays on\n"
      "the guard, and it lives as long as they do.")
      .def(nb::init<Buffer>(), nb::arg("mapping"))
      .def_prop_ro("faults", &Guard::faults,
                   "Pages that could not be read in this process, so far.");
}

}  // namespace penstock::bindings
