#include "headrace/formats/tfrecord.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "buffer.hpp"
#include "headrace/formats/tf_example.hpp"
#include "headrace/io/gather.hpp"

namespace headrace::bindings {
namespace {

using EndArray = NewArray<std::int64_t, 1>;
using PlaceArray = NewArray<std::uint64_t, 1>;

template <typename T>
NewArray<T, 1> vector_to_array(const std::vector<T>& values) {
  ResultMemory<T> memory(values.size());
  std::copy(values.begin(), values.end(), memory.span().begin());
  return memory.to_array();
}

SpanList checked_list(const U64Array& offsets, const U64Array& sizes) {
  if (offsets.size() != sizes.size()) {
    throw_invalid(Detail() << offsets.size() << " offsets, but " << sizes.size() << " sizes");
  }
  return {span_of(offsets), span_of(sizes)};
}

nb::typed<nb::tuple, PlaceArray, PlaceArray, std::uint64_t> scan_tfrecord_file(
    const ByteArray& file, std::uint64_t start, std::uint64_t max_records) {
  // No record is smaller than its frame.
  const std::size_t room = std::min<std::uint64_t>(max_records, file.size() / 16 + 1);
  std::vector<std::uint64_t> offsets(room);
  std::vector<std::uint64_t> sizes(room);
  TfrecordScan found;
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = scan_tfrecord(bytes_of(file), start, offsets, sizes, found);
  }
  throw_if_error(status);
  offsets.resize(found.count);
  sizes.resize(found.count);
  return nb::typed<nb::tuple, PlaceArray, PlaceArray, std::uint64_t>(
      nb::make_tuple(vector_to_array(offsets), vector_to_array(sizes), found.next));
}

NewArray<std::uint32_t, 1> check_tfrecord_spans(const ByteArray& base, const U64Array& offsets,
                                                const U64Array& sizes) {
  const SpanList records = checked_list(offsets, sizes);
  ResultMemory<std::uint32_t> checksums(offsets.size());
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = check_tfrecords(bytes_of(base), records, checksums.span());
  }
  throw_if_error(status);
  return checksums.to_array();
}

void check_same_count(const U64Array& records, const U64Array& parts) {
  if (records.size() != parts.size()) {
    throw_invalid(Detail() << records.size() << " records, but " << parts.size() << " parts");
  }
}

void copy_tfrecord_parts(const ByteArray& base, const SpanList& records, const SpanList& parts,
                         const std::vector<std::byte*>& destinations) {
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = copy_checked_tfrecords(bytes_of(base), records, parts, destinations);
  }
  throw_if_error(status);
}

nb::typed<nb::list, nb::bytes> gather_record_parts(const ByteArray& base, const U64Array& offsets,
                                                   const U64Array& sizes,
                                                   const U64Array& part_offsets,
                                                   const U64Array& part_sizes) {
  const SpanList records = checked_list(offsets, sizes);
  const SpanList parts = checked_list(part_offsets, part_sizes);
  check_same_count(offsets, part_offsets);
  throw_if_error(check_spans(parts, base.size()));  // before memory is asked for
  std::vector<std::byte*> destinations;
  nb::list out = new_bytes(parts.sizes, destinations);
  copy_tfrecord_parts(base, records, parts, destinations);
  return nb::typed<nb::list, nb::bytes>(std::move(out));
}

void gather_record_parts_into(const ByteArray& base, const U64Array& offsets, const U64Array& sizes,
                              const U64Array& part_offsets, const U64Array& part_sizes,
                              const MutableByteArray& out, const U64Array& places) {
  const SpanList records = checked_list(offsets, sizes);
  const SpanList parts = checked_list(part_offsets, part_sizes);
  check_same_count(offsets, part_offsets);
  check_same_count(offsets, places);
  throw_if_error(check_spans({span_of(places), parts.sizes}, out.size()));
  std::vector<std::byte*> destinations;
  destinations.reserve(places.size());
  for (const std::uint64_t place : span_of(places)) {
    destinations.push_back(writable_bytes_of(out).data() + place);
  }
  copy_tfrecord_parts(base, records, parts, destinations);
}

nb::bytes frame_records(const std::vector<Buffer>& records) {
  std::vector<ByteSpan> spans;
  spans.reserve(records.size());
  for (const Buffer& record : records) spans.push_back(record.bytes());
  std::vector<std::byte> frames(spans.size() * (kTfrecordHeadSize + kTfrecordTailSize));
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = frame_tfrecords(spans, frames);
  }
  throw_if_error(status);
  return nb::bytes(reinterpret_cast<const char*>(frames.data()), frames.size());
}

void add_examples(TfExampleTable& table, const ByteArray& file, const U64Array& offsets,
                  const U64Array& sizes) {
  const SpanList records = checked_list(offsets, sizes);
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = table.add(bytes_of(file), records);
  }
  throw_if_error(status);
}

nb::list example_columns(const TfExampleTable& table) {
  nb::list out;
  for (const TfColumn& column : table.columns()) {
    out.append(nb::make_tuple(nb::bytes(column.name.data(), column.name.size()), column.is_list,
                              static_cast<int>(column.kind), column.min_count, column.max_count,
                              column.min_steps, column.max_steps, column.is_message,
                              column.other_kind_row));
  }
  return out;
}

// The records themselves are the first column.
nb::typed<nb::tuple, NewArray<std::uint64_t, 2>, NewArray<std::uint64_t, 2>> example_places(
    const TfExampleTable& table, const U64Array& offsets, const U64Array& sizes) {
  const SpanList records = checked_list(offsets, sizes);
  const std::size_t rows = table.rows();
  if (offsets.size() != rows) {
    throw_invalid(Detail() << offsets.size() << " records, but " << rows << " rows");
  }
  const std::size_t stride = table.columns().size() + 1;
  ResultMemory<std::uint64_t> out_offsets(rows * stride);
  ResultMemory<std::uint64_t> out_sizes(rows * stride);
  for (std::size_t i = 0; i < rows; ++i) {
    out_offsets.span()[i * stride] = records.offsets[i];
    out_sizes.span()[i * stride] = records.sizes[i];
  }
  table.places(1, stride, out_offsets.span(), out_sizes.span());
  return nb::typed<nb::tuple, NewArray<std::uint64_t, 2>, NewArray<std::uint64_t, 2>>(
      nb::make_tuple(out_offsets.to_array(rows, stride), out_sizes.to_array(rows, stride)));
}

NewArray<std::uint32_t, 2> example_checksums(const TfExampleTable& table, const ByteArray& file) {
  const std::size_t rows = table.rows();
  const std::size_t stride = table.columns().size() + 1;
  ResultMemory<std::uint32_t> out(rows * stride);
  std::fill(out.span().begin(), out.span().end(), 0);
  {
    nb::gil_scoped_release unlocked;
    table.checksums(bytes_of(file), out.span());
  }
  return out.to_array(rows, stride);
}

template <typename T, auto kRead>
nb::typed<nb::tuple, NewArray<T, 1>, EndArray> tf_numbers(const ByteArray& base,
                                                          const U64Array& offsets,
                                                          const U64Array& sizes, bool is_message) {
  const SpanList spans = checked_list(offsets, sizes);
  std::vector<T> values;
  ResultMemory<std::int64_t> ends(offsets.size());
  Status status;
  {
    const Unlocked unlocked(offsets.size() >= Unlocked::kManyItems);
    status = kRead(bytes_of(base), spans, is_message, values, ends.span());
  }
  throw_if_error(status);
  return nb::typed<nb::tuple, NewArray<T, 1>, EndArray>(
      nb::make_tuple(vector_to_array(values), ends.to_array()));
}

template <auto kFind>
nb::typed<nb::tuple, PlaceArray, PlaceArray, EndArray> tf_parts(const ByteArray& base,
                                                                const U64Array& offsets,
                                                                const U64Array& sizes) {
  const SpanList spans = checked_list(offsets, sizes);
  TfPlaces found;
  ResultMemory<std::int64_t> ends(offsets.size());
  Status status;
  {
    const Unlocked unlocked(offsets.size() >= Unlocked::kManyItems);
    status = kFind(bytes_of(base), spans, found, ends.span());
  }
  throw_if_error(status);
  return nb::typed<nb::tuple, PlaceArray, PlaceArray, EndArray>(nb::make_tuple(
      vector_to_array(found.offsets), vector_to_array(found.sizes), ends.to_array()));
}

using VarintsIn = Array<const std::int64_t, nb::ndim<1>>;

nb::bytes pack_varints(const VarintsIn& values) {
  std::string out;
  out.reserve(values.size());
  for (const std::int64_t value : span_of(values)) {
    auto rest = static_cast<std::uint64_t>(value);
    for (; rest >= 0x80; rest >>= 7) out.push_back(static_cast<char>(rest | 0x80));
    out.push_back(static_cast<char>(rest));
  }
  return nb::bytes(out.data(), out.size());
}

}  // namespace

void bind_tfrecord(nb::module_& module) {
  module.def(
      "scan_tfrecord", scan_tfrecord_file, nb::arg("file").noconvert(), nb::arg("start"),
      nb::arg("max_records"),
      "Offsets and sizes of the data of records from a byte on, and where the next begins.\n\n"
      "Lengths are checked. NativeError has the byte where a bad record begins as offset.");
  module.def(
      "check_tfrecords", check_tfrecord_spans, nb::arg("base").noconvert(),
      nb::arg("offsets").noconvert(), nb::arg("sizes").noconvert(),
      "Compare the data of records with the checksums behind them, and give their CRC-32C.\n\n"
      "NativeError has the position of the bad record as offset.");
  module.def("gather_tfrecords", gather_record_parts, nb::arg("base").noconvert(),
             nb::arg("offsets").noconvert(), nb::arg("sizes").noconvert(),
             nb::arg("part_offsets").noconvert(), nb::arg("part_sizes").noconvert(),
             "Copy a part of each record to a bytes object, if the record fits its checksum.\n\n"
             "NativeError has the position of the bad record as offset.");
  module.def("gather_tfrecords_into", gather_record_parts_into, nb::arg("base").noconvert(),
             nb::arg("offsets").noconvert(), nb::arg("sizes").noconvert(),
             nb::arg("part_offsets").noconvert(), nb::arg("part_sizes").noconvert(),
             nb::arg("out").noconvert(), nb::arg("places").noconvert(),
             "The same into one array, each part from its place on.");
  module.def("frame_tfrecords", frame_records, nb::arg("records"),
             "What stands before (12 bytes) and after (4 bytes) the data of each record.");
  module.def("pack_tf_ints", pack_varints, nb::arg("values").noconvert(),
             "Numbers as a packed field of a protocol buffer.");
  nb::class_<TfExampleTable>(module, "TfExampleTable",
                             "Where the features of tf.train.Examples are, row by row.")
      .def(nb::init<std::uint64_t, bool>(), nb::arg("max_cells"),
           nb::arg("makes_checksums") = false,
           "Rows times columns are max_cells at most. With checksums, each record is compared.")
      .def("__len__", &TfExampleTable::rows, "Number of rows.")
      .def("add", add_examples, nb::arg("file").noconvert(), nb::arg("offsets").noconvert(),
           nb::arg("sizes").noconvert(),
           "Add a row for each record.\n\n"
           "NativeError has the position of the bad record as offset; all before it are added.")
      .def(
          "add_bad", [](TfExampleTable& table) { throw_if_error(table.add_bad()); },
          "Add a row for a record that cannot be read.")
      .def("columns", example_columns,
           "Of each column: name, is_list, kind (0 none, 1 bytes, 2 floats, 3 ints), least and\n"
           "most values, least and most steps, is_message, and the row of another kind or -1.")
      .def("places", example_places, nb::arg("offsets").noconvert(), nb::arg("sizes").noconvert(),
           "Offsets and sizes, rows x (1 + columns); the records that are given come first.")
      .def("checksums", example_checksums, nb::arg("file").noconvert(),
           "CRC-32C of what lies at these places, where they are made; else zeros.");
  module.def("read_tf_ints", tf_numbers<std::int64_t, read_tf_ints>, nb::arg("base").noconvert(),
             nb::arg("offsets").noconvert(), nb::arg("sizes").noconvert(), nb::arg("is_message"),
             "All ints of spans, and where those of each span end.");
  module.def("read_tf_floats", tf_numbers<float, read_tf_floats>, nb::arg("base").noconvert(),
             nb::arg("offsets").noconvert(), nb::arg("sizes").noconvert(), nb::arg("is_message"),
             "All floats of spans, and where those of each span end.");
  module.def("find_tf_bytes", tf_parts<find_tf_bytes>, nb::arg("base").noconvert(),
             nb::arg("offsets").noconvert(), nb::arg("sizes").noconvert(),
             "PlaceArray of the byte strings of Features, and where those of each end.");
  module.def("find_tf_steps", tf_parts<find_tf_steps>, nb::arg("base").noconvert(),
             nb::arg("offsets").noconvert(), nb::arg("sizes").noconvert(),
             "PlaceArray of the Features of FeatureLists, and where those of each end.");
}

}  // namespace headrace::bindings
