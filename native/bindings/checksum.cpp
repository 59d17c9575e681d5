#include "headrace/checksum.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "buffer.hpp"
#include "headrace/io/file_checksum.hpp"

namespace headrace::bindings {
namespace {

template <ChecksumKind kKind>
std::uint32_t checksum_of(const Buffer& data, std::uint32_t initial) {
  const ByteSpan bytes = data.bytes();
  const Unlocked unlocked(bytes.size() >= Unlocked::kLongBytes);
  return checksum(kKind, bytes, initial);
}

template <ChecksumKind kKind>
NewArray<std::uint32_t, 1> checksums_of_spans(const ByteArray& base, const U64Array& offsets,
                                              const U64Array& sizes) {
  constexpr auto spans = kKind == ChecksumKind::crc32 ? crc32_spans : crc32c_spans;
  ResultMemory<std::uint32_t> out(offsets.size());
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = spans(bytes_of(base), span_of(offsets), span_of(sizes), out.span());
  }
  throw_if_error(status);
  return out.to_array();
}

using Rows = Array<const std::uint8_t, nb::ndim<2>>;
using Holes = std::vector<std::pair<std::uint64_t, std::uint64_t>>;

std::vector<Hole> core_holes(const Holes& holes) {
  std::vector<Hole> out;
  for (const auto& [offset, size] : holes) out.push_back({offset, size});
  return out;
}

NewArray<std::uint32_t, 1> crc32c_of_rows(const Rows& rows, const Holes& holes) {
  const std::vector<Hole> of_rows = core_holes(holes);
  ResultMemory<std::uint32_t> out(rows.shape(0));
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = crc32c_rows(bytes_of(rows), rows.shape(1), of_rows, out.span());
  }
  throw_if_error(status);
  return out.to_array();
}

std::ptrdiff_t wrong_row(const Rows& rows, const Holes& holes,
                         const Array<const std::int64_t, nb::ndim<1>>& numbers,
                         const Array<const std::uint32_t, nb::ndim<2>>& checksums) {
  const std::vector<Hole> of_rows = core_holes(holes);
  const Unlocked unlocked(numbers.size() >= Unlocked::kManyItems);
  return value_or_throw(find_wrong_row(bytes_of(rows), rows.shape(1), of_rows, span_of(numbers),
                                       span_of(checksums), checksums.shape(1)));
}

template <ChecksumKind kKind>
NewArray<std::uint32_t, 1> checksums_of_buffers(const std::vector<Buffer>& buffers) {
  std::vector<ByteSpan> spans;
  spans.reserve(buffers.size());
  for (const Buffer& buffer : buffers) spans.push_back(buffer.bytes());
  ResultMemory<std::uint32_t> out(spans.size());
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = checksum_buffers(kKind, spans, out.span());
  }
  throw_if_error(status);
  return out.to_array();
}

NewArray<std::uint32_t, 1> checksums_of_file(int fd, const U64Array& offsets,
                                             const U64Array& sizes) {
  ResultMemory<std::uint32_t> out(offsets.size());
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status =
        checksum_file(fd, ChecksumKind::crc32c, {span_of(offsets), span_of(sizes)}, out.span());
  }
  throw_if_error(status);
  return out.to_array();
}

}  // namespace

void bind_checksum(nb::module_& module) {
  module.def("crc32c", checksum_of<ChecksumKind::crc32c>, nb::arg("data"), nb::arg("initial") = 0,
             "CRC-32C of a buffer, continuing from the checksum of what came before it.");
  module.def("crc32c_spans", checksums_of_spans<ChecksumKind::crc32c>, nb::arg("base").noconvert(),
             nb::arg("offsets").noconvert(), nb::arg("sizes").noconvert(),
             "CRC-32C of each (offset, size) span of base.");
  module.def("crc32", checksum_of<ChecksumKind::crc32>, nb::arg("data"), nb::arg("start") = 0,
             "CRC-32 of a buffer as zlib has it, continuing from the checksum before it.");
  module.def("crc32_spans", checksums_of_spans<ChecksumKind::crc32>, nb::arg("base").noconvert(),
             nb::arg("offsets").noconvert(), nb::arg("sizes").noconvert(),
             "CRC-32 of each (offset, size) span of base.");
  module.def("crc32c_file", checksums_of_file, nb::arg("fd"), nb::arg("offsets").noconvert(),
             nb::arg("sizes").noconvert(),
             "CRC-32C of each (offset, size) span of an open file, which is read once.\n\n"
             "NativeError 'truncated' or 'io_error' has the position of the bad span as offset.");
  module.def("crc32c_rows", crc32c_of_rows, nb::arg("rows").noconvert(), nb::arg("holes"),
             "CRC-32C of each row, with the bytes in the (offset, size) holes taken as zero.");
  module.def("find_wrong_row", wrong_row, nb::arg("rows").noconvert(), nb::arg("holes"),
             nb::arg("numbers").noconvert(), nb::arg("checksums").noconvert(),
             "The position of the first of these row numbers whose row does not have the checksum "
             "in the first column of checksums, or -1.");
  module.def("crc32c_buffers", checksums_of_buffers<ChecksumKind::crc32c>, nb::arg("buffers"),
             "CRC-32C of each buffer.");
  module.def("crc32_buffers", checksums_of_buffers<ChecksumKind::crc32>, nb::arg("buffers"),
             "CRC-32 of each buffer.");
}

}  // namespace headrace::bindings
