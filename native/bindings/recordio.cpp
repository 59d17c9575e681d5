#include "headrace/formats/recordio.hpp"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "buffer.hpp"

namespace headrace::bindings {
namespace {

template <typename T>
NewArray<T, 1> first_values(const std::vector<T>& values, std::size_t count) {
  ResultMemory<T> memory(count);
  std::copy_n(values.begin(), count, memory.span().begin());
  return memory.to_array();
}

nb::typed<nb::tuple, NewArray<std::uint64_t, 1>, NewArray<std::uint64_t, 1>,
          NewArray<std::uint8_t, 1>, std::uint64_t>
scan_recordio_file(const ByteArray& file, std::uint64_t start, std::uint64_t max_records) {
  const std::size_t room =
      std::min<std::uint64_t>(max_records, file.size() / kRecordioHeadSize + 1);
  std::vector<std::uint64_t> offsets(room);
  std::vector<std::uint64_t> sizes(room);
  std::vector<std::uint8_t> is_split(room);
  RecordioScan found;
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = scan_recordio(bytes_of(file), start, {offsets, sizes, is_split}, found);
  }
  throw_if_error(status);
  return nb::make_tuple(first_values(offsets, found.count), first_values(sizes, found.count),
                        first_values(is_split, found.count), found.next);
}

nb::bytes join_recordio_parts(const Buffer& record) {
  std::string out;
  throw_if_error(join_recordio(record.bytes(), out));
  return nb::bytes(out.data(), out.size());
}

nb::typed<nb::list, nb::bytes> encode_recordio_records(const std::vector<Buffer>& records) {
  nb::list out;
  for (const Buffer& record : records) {
    std::string bytes;
    throw_if_error(encode_recordio(record.bytes(), bytes));
    out.append(nb::bytes(bytes.data(), bytes.size()));
  }
  return nb::typed<nb::list, nb::bytes>(std::move(out));
}

}  // namespace

void bind_recordio(nb::module_& module) {
  module.def("scan_recordio", scan_recordio_file, nb::arg("file").noconvert(), nb::arg("start"),
             nb::arg("max_records"),
             "Offsets, sizes and is_split of records from a byte on, and where the next begins.\n\n"
             "NativeError has the byte where a bad part begins as offset.");
  module.def("join_recordio", join_recordio_parts, nb::arg("record"),
             "The data of a record as it is stored, its parts joined.");
  module.def("encode_recordio", encode_recordio_records, nb::arg("records"),
             "Data of records as they are stored, split where they hold the magic number.");
}

}  // namespace headrace::bindings
