#include "headrace/formats/text_records.hpp"

#include <nanobind/stl/optional.h>

#include <algorithm>
#include <new>
#include <optional>
#include <vector>

#include "bindings.hpp"
#include "buffer.hpp"

namespace headrace::bindings {
namespace {

void make_text_records(TextRecords* self, std::optional<char> delimiter) {
  if (delimiter) {
    new (self) TextRecords(*delimiter);
  } else {
    new (self) TextRecords();
  }
}

void scan_records(TextRecords& records, const Buffer& file, std::uint64_t until) {
  const ByteSpan bytes = file.bytes();
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = records.scan(bytes, until);
  }
  throw_if_error(status);
}

NewArray<std::uint64_t, 1> record_array(const std::vector<std::uint64_t>& values) {
  ResultMemory<std::uint64_t> memory(values.size());
  std::copy(values.begin(), values.end(), memory.span().begin());
  return memory.to_array();
}

}  // namespace

void bind_text_records(nb::module_& module) {
  nb::class_<TextRecords>(module, "TextRecords", "Where the records of a text are.")
      .def("__init__", make_text_records, nb::arg("delimiter") = nb::none(),
           "Lines of JSON objects; with a delimiter, records of CSV.")
      .def("scan", scan_records, nb::arg("file"), nb::arg("until"),
           "Go on to the first record that begins at or behind a byte; the file is the same each "
           "time.")
      .def(
          "__len__", [](const TextRecords& r) { return r.offsets().size(); }, "Records so far.")
      .def_prop_ro("position", &TextRecords::position, "Where the next line begins.")
      .def_prop_ro("line", &TextRecords::line, "Number of the next line.")
      .def_prop_ro(
          "offsets", [](const TextRecords& r) { return record_array(r.offsets()); },
          nb::rv_policy::automatic, "First byte of each record.")
      .def_prop_ro(
          "sizes", [](const TextRecords& r) { return record_array(r.sizes()); },
          nb::rv_policy::automatic, "Bytes of each record, without the end of the line.");
}

}  // namespace headrace::bindings
