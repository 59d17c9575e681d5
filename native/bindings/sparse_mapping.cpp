// A sparse mapping is a buffer: arrays on it keep it alive. A part that is being written to is an
// array of its own, which keeps it alive, too.
#include "headrace/io/sparse_mapping.hpp"

#include "bindings.hpp"
#include "buffer.hpp"

namespace headrace::bindings {
namespace {

using Part = nb::ndarray<nb::numpy, std::uint8_t, nb::ndim<1>>;

SparseMapping make_mapping(std::uint64_t size) {
  Result<SparseMapping> result = SparseMapping::create(size);
  if (result.status().code() == Code::io_error) {
    throw_os_error(static_cast<int>(result.status().offset()), nullptr);
  }
  return value_or_throw(std::move(result));
}

void fill(SparseMapping& mapping, std::uint64_t start, const Buffer& data) {
  Status status;
  {
    const Unlocked unlocked(data.bytes().size() >= Unlocked::kLongBytes);
    status = mapping.fill(start, data.bytes());
  }
  throw_if_error(status);
}

Part writable(nb::handle_t<SparseMapping> self, std::uint64_t start, std::uint64_t size) {
  auto& mapping = nb::cast<SparseMapping&>(self);
  const MutableByteSpan part = value_or_throw(mapping.writable(start, size));
  return Part(part.data(), {part.size()}, self);
}

bool adopt(SparseMapping& mapping, std::uint64_t start, std::uint64_t size, SparseMapping& from,
           std::uint64_t from_start) {
  const auto adopted = mapping.adopt(start, size, from, from_start);
  throw_if_error(adopted.status());
  return adopted.value();
}

void overwrite(SparseMapping& mapping, std::uint64_t start, const Buffer& data) {
  Status status;
  {
    const Unlocked unlocked(data.bytes().size() >= Unlocked::kLongBytes);
    status = mapping.overwrite(start, data.bytes());
  }
  throw_if_error(status);
}

void seal(SparseMapping& mapping, std::uint64_t start, std::uint64_t size) {
  throw_if_error(mapping.seal(start, size));
}

void drop(SparseMapping& mapping, std::uint64_t start, std::uint64_t size) {
  Status status;
  {
    const Unlocked unlocked(size >= Unlocked::kLongBytes);
    status = mapping.drop(start, size);
  }
  throw_if_error(status);
}

int get_sparse_buffer(PyObject* self, Py_buffer* view, int flags) noexcept {
  const ByteSpan bytes = nb::inst_ptr<SparseMapping>(self)->bytes();
  return PyBuffer_FillInfo(view, self, const_cast<std::byte*>(bytes.data()),
                           static_cast<Py_ssize_t>(bytes.size()), 1, flags);
}

PyType_Slot sparse_mapping_slots[] = {{Py_bf_getbuffer, reinterpret_cast<void*>(get_sparse_buffer)},
                                      {0, nullptr}};

}  // namespace

void bind_sparse_mapping(nb::module_& module) {
  nb::class_<SparseMapping>(
      module, "SparseMapping", nb::type_slots(sparse_mapping_slots),
      "Addresses for a large file, of which only parts are there; the rest takes no memory.\n\n"
      "It is a read-only buffer of all bytes: use arrays on it, and it lives as long as they do.\n"
      "What is touched and not there reads as zeros and is counted. A part begins at a page, and\n"
      "ends at one or at the end.")
      .def(
          "__init__",
          [](SparseMapping* self, std::uint64_t size) {
            new (self) SparseMapping(make_mapping(size));
          },
          nb::arg("size"))
      .def("fill", &fill, nb::arg("start"), nb::arg("data"), "Put bytes into place.")
      .def("adopt", &adopt, nb::arg("start"), nb::arg("size"), nb::arg("from_mapping"),
           nb::arg("from_start"),
           "Let a part have the memory of another part of the same size, which is dropped, to\n"
           "overwrite it. False where the system cannot do that; then nothing has changed.")
      .def("overwrite", &overwrite, nb::arg("start"), nb::arg("data"),
           "Put bytes into place, into memory that can be written to, and seal it.")
      .def("writable", &writable, nb::arg("start"), nb::arg("size"),
           "Fresh memory for a part; nobody may write to it once it is sealed.")
      .def("seal", &seal, nb::arg("start"), nb::arg("size"), "Make a part read-only.")
      .def("drop", &drop, nb::arg("start"), nb::arg("size"),
           "Give memory back; the part is not there any more.")
      .def_prop_ro("faults", &SparseMapping::faults,
                   "Pages that were touched and not there, in this process, so far.");
}

}  // namespace headrace::bindings
