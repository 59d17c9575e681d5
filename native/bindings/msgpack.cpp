#include "headrace/formats/msgpack.hpp"

#include <nanobind/stl/vector.h>

#include <algorithm>
#include <vector>

#include "bindings.hpp"
#include "buffer.hpp"

namespace headrace::bindings {
namespace {

void scan_msgpack(MsgpackScanner& scanner, const Buffer& file, std::uint64_t until) {
  const ByteSpan bytes = file.bytes();
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = scanner.scan(bytes, until);
  }
  throw_if_error(status);
}

nb::typed<nb::list, nb::bytes> msgpack_columns(const MsgpackScanner& scanner) {
  nb::list out;
  for (const std::string& column : scanner.columns()) {
    out.append(nb::bytes(column.data(), column.size()));
  }
  return nb::typed<nb::list, nb::bytes>(std::move(out));
}

NewArray<std::uint64_t, 2> msgpack_table(const MsgpackScanner& scanner,
                                         const std::vector<std::uint64_t>& values) {
  ResultMemory<std::uint64_t> memory(values.size());
  std::copy(values.begin(), values.end(), memory.span().begin());
  return memory.to_array(scanner.samples(), scanner.columns().size());
}

NewArray<std::int64_t, 2> msgpack_firsts(const MsgpackScanner& scanner) {
  ResultMemory<std::int64_t> memory(scanner.firsts().size() * kMsgpackKinds);
  auto to = memory.span().begin();
  for (const auto& firsts : scanner.firsts()) to = std::copy(firsts.begin(), firsts.end(), to);
  return memory.to_array(scanner.firsts().size(), kMsgpackKinds);
}

template <typename T>
NewArray<T, 1> decode_msgpack(const Buffer& region, const U64Array& offsets, const U64Array& sizes,
                              Status (*core)(ByteSpan, std::span<const std::uint64_t>,
                                             std::span<const std::uint64_t>,
                                             std::span<T>) noexcept) {
  ResultMemory<T> out(offsets.size());
  const ByteSpan bytes = region.bytes();
  Status status;
  {
    const Unlocked unlocked(offsets.size() >= Unlocked::kManyItems);
    status = core(bytes, span_of(offsets), span_of(sizes), out.span());
  }
  throw_if_error(status);
  return out.to_array();
}

NewArray<std::int64_t, 1> msgpack_ints(const Buffer& region, const U64Array& offsets,
                                       const U64Array& sizes) {
  return decode_msgpack<std::int64_t>(region, offsets, sizes, decode_msgpack_ints);
}

NewArray<double, 1> msgpack_floats(const Buffer& region, const U64Array& offsets,
                                   const U64Array& sizes) {
  return decode_msgpack<double>(region, offsets, sizes, decode_msgpack_floats);
}

}  // namespace

void bind_msgpack(nb::module_& module) {
  nb::class_<MsgpackScanner>(module, "MsgpackScanner",
                             "Where the values of a MessagePack stream are.")
      .def(nb::init<>(), "Begin at the first byte.")
      .def("scan", scan_msgpack, nb::arg("file"), nb::arg("until"),
           "Go on to the first sample that begins at or behind a byte; the file is the same each "
           "time.")
      .def("strip_heads", &MsgpackScanner::strip_heads,
           "Of columns of texts alone, or of bytes alone: give what is inside of the values.")
      .def_prop_ro("position", &MsgpackScanner::position, "Where the next sample begins.")
      .def_prop_ro("samples", &MsgpackScanner::samples, "Samples found so far.")
      .def_prop_ro("is_maps", &MsgpackScanner::is_maps, "The samples are maps with text keys.")
      .def_prop_ro("columns", msgpack_columns, "Keys of the maps.")
      .def_prop_ro(
          "offsets", [](const MsgpackScanner& s) { return msgpack_table(s, s.offsets()); },
          nb::rv_policy::automatic, "First byte of each value, samples x columns.")
      .def_prop_ro(
          "sizes", [](const MsgpackScanner& s) { return msgpack_table(s, s.sizes()); },
          nb::rv_policy::automatic, "Bytes of each value, samples x columns.")
      .def_prop_ro("firsts", msgpack_firsts, nb::rv_policy::automatic,
                   "First sample of each kind of value, columns x kinds; -1 where there is none.");
  module.def("decode_msgpack_ints", msgpack_ints, nb::arg("region"), nb::arg("offsets").noconvert(),
             nb::arg("sizes").noconvert(), "Integers of encoded values.");
  module.def("decode_msgpack_floats", msgpack_floats, nb::arg("region"),
             nb::arg("offsets").noconvert(), nb::arg("sizes").noconvert(),
             "Floating point numbers of encoded values; integers become such.");
}

}  // namespace headrace::bindings
