#include "headrace/io/gather.hpp"

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <vector>

#include "bindings.hpp"

namespace headrace::bindings {
namespace {

std::span<std::uint32_t> span_or_empty(const std::optional<Checksums>& checksums) {
  return checksums ? span_of(*checksums) : std::span<std::uint32_t>();
}

void check(SpanList spans, std::size_t region_size) {
  throw_if_error(check_spans(spans, region_size));
}

// An array of checksums that is present but empty would be taken for an absent one.
void check_checksums(const std::optional<Checksums>& checksums, std::size_t spans) {
  if (checksums && checksums->size() != spans) {
    throw_if_error(Status(Code::invalid_argument, Detail("checksums has ")
                                                      << checksums->size() << " entries for "
                                                      << spans << " spans"));
  }
}

// Bytes objects of a batch come and go together. malloc hands memory above a threshold back to the
// system when it is freed, and then the next batch pays for each page again. The threshold rises to
// twice the largest block that was freed, so one of the size of the batch is; nobody touches it.
void expect_as_much_again(std::span<const std::uint64_t> sizes) {
  constexpr std::uint64_t kFewest = 128 << 10, kMost = 32 << 20;  // others make no difference
  std::uint64_t total = 0;
  for (const std::uint64_t size : sizes) total += std::min(size, kMost);
  if (total < kFewest || total > kMost) return;
  void* volatile block = std::malloc(total);  // volatile: or the compiler leaves both out
  std::free(block);
}

}  // namespace

nb::list new_bytes(std::span<const std::uint64_t> sizes, std::vector<std::byte*>& destinations) {
  nb::list out = nb::steal<nb::list>(PyList_New(static_cast<Py_ssize_t>(sizes.size())));
  if (!out.is_valid()) throw nb::python_error();
  expect_as_much_again(sizes);
  destinations.reserve(sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    PyObject* bytes = PyBytes_FromStringAndSize(nullptr, static_cast<Py_ssize_t>(sizes[i]));
    if (bytes == nullptr) throw nb::python_error();
    if (PyList_SetItem(out.ptr(), static_cast<Py_ssize_t>(i), bytes) != 0) throw nb::python_error();
    destinations.push_back(reinterpret_cast<std::byte*>(PyBytes_AsString(bytes)));
  }
  return out;
}

namespace {

nb::typed<nb::list, nb::bytes> gather_bytes(const ByteArray& base, const U64Array& offsets,
                                            const U64Array& sizes,
                                            const std::optional<Checksums>& checksums) {
  const SpanList spans{span_of(offsets), span_of(sizes)};
  check(spans, base.size());
  check_checksums(checksums, spans.offsets.size());
  std::vector<std::byte*> destinations;
  nb::list out = new_bytes(spans.sizes, destinations);
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = gather(bytes_of(base), spans, destinations, span_or_empty(checksums));
  }
  throw_if_error(status);
  return nb::typed<nb::list, nb::bytes>(std::move(out));
}

void gather_into_array(const ByteArray& base, const U64Array& offsets, const U64Array& sizes,
                       const MutableByteArray& out, const U64Array& out_offsets,
                       const std::optional<Checksums>& checksums) {
  check_checksums(checksums, offsets.size());
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = gather_into(bytes_of(base), {span_of(offsets), span_of(sizes)}, writable_bytes_of(out),
                         span_of(out_offsets), span_or_empty(checksums));
  }
  throw_if_error(status);
}

}  // namespace

void bind_gather(nb::module_& module) {
  module.def(
      "gather", gather_bytes, nb::arg("base").noconvert(), nb::arg("offsets").noconvert(),
      nb::arg("sizes").noconvert(), nb::arg("checksums").noconvert() = nb::none(),
      "Copy each (offset, size) span of base to a bytes object, with its CRC-32C if wanted.");
  module.def("gather_into", gather_into_array, nb::arg("base").noconvert(),
             nb::arg("offsets").noconvert(), nb::arg("sizes").noconvert(),
             nb::arg("out").noconvert(), nb::arg("out_offsets").noconvert(),
             nb::arg("checksums").noconvert() = nb::none(),
             "Copy each (offset, size) span of base into out, with its CRC-32C if wanted.");
}

}  // namespace headrace::bindings
