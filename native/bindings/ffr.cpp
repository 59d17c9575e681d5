#include "headrace/formats/ffr.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/vector.h>

#include <optional>
#include <utility>
#include <vector>

#include "bindings.hpp"
#include "buffer.hpp"
#include "headrace/io/gather.hpp"

namespace headrace::bindings {
namespace {

using I64Array = Array<const std::int64_t, nb::ndim<1>>;
using U32Array = Array<const std::uint32_t, nb::ndim<1>>;

std::int64_t check_offsets(const Buffer& table, std::uint64_t first_allowed,
                           std::uint64_t file_size) {
  const ByteSpan bytes = table.bytes();
  Result<std::int64_t> found = [&] {
    nb::gil_scoped_release unlocked;
    return find_bad_ffr_offset(bytes, first_allowed, file_size);
  }();
  return value_or_throw(std::move(found));
}

nb::typed<nb::tuple, std::uint32_t, std::int64_t> check_header(const Buffer& header,
                                                               std::uint64_t file_size) {
  const ByteSpan bytes = header.bytes();
  Result<FfrHeaderCheck> found = [&] {
    nb::gil_scoped_release unlocked;
    return check_ffr_header(bytes, file_size);
  }();
  const FfrHeaderCheck check = value_or_throw(std::move(found));
  return nb::typed<nb::tuple, std::uint32_t, std::int64_t>(
      nb::make_tuple(check.checksum, check.bad_offset));
}

// The files stay as long as the table. Held as buffers, not by DLPack: an array that is still held
// so when the interpreter ends is never let go, and the guard of its mapping neither.
struct FfrFiles {
  FfrFiles(std::vector<Buffer> files, const std::vector<std::uint64_t>& counts)
      : owners(std::move(files)) {
    if (owners.size() != counts.size()) {
      throw_invalid(Detail() << owners.size() << " files, but " << counts.size() << " counts");
    }
    for (std::size_t i = 0; i < owners.size(); ++i) {
      throw_if_error(core.add(owners[i].bytes(), counts[i]));
    }
  }

  FfrFiles(const FfrFiles&) = delete;
  FfrFiles& operator=(const FfrFiles&) = delete;

  std::vector<Buffer> owners;
  FfrTable core;
};

nb::typed<nb::tuple, NewArray<std::uint32_t, 1>, NewArray<std::uint64_t, 1>,
          NewArray<std::uint64_t, 1>, NewArray<std::uint32_t, 1>>
locate(const FfrFiles& table, const I64Array& indices) {
  const std::size_t n = indices.size();
  ResultMemory<std::uint32_t> files(n);
  ResultMemory<std::uint64_t> offsets(n);
  ResultMemory<std::uint64_t> sizes(n);
  ResultMemory<std::uint32_t> checksums(n);
  Status status;
  {
    const Unlocked unlocked(n >= Unlocked::kManyItems);
    status = table.core.locate(span_of(indices),
                               {files.span(), offsets.span(), sizes.span(), checksums.span()});
  }
  throw_if_error(status);
  return nb::make_tuple(files.to_array(), offsets.to_array(), sizes.to_array(),
                        checksums.to_array());
}

// Copies spans to where they go, with their checksums if wanted.
void copy(const FfrFiles& table, const U32Array& files, const U64Array& offsets,
          const U64Array& sizes, const std::vector<std::byte*>& destinations,
          const std::optional<Checksums>& checksums) {
  if (checksums && checksums->size() != offsets.size()) {
    throw_invalid(Detail("checksums has ")
                  << checksums->size() << " entries for " << offsets.size() << " spans");
  }
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status =
        gather(table.core.files(), span_of(files), {span_of(offsets), span_of(sizes)}, destinations,
               checksums ? span_of(*checksums) : std::span<std::uint32_t>(), ChecksumKind::crc32);
  }
  throw_if_error(status);
}

void copy_into_each(const FfrFiles& table, const U32Array& files, const U64Array& offsets,
                    const U64Array& sizes, const std::vector<WritableBuffer>& outs,
                    const std::optional<Checksums>& checksums) {
  copy(table, files, offsets, sizes, addresses_of(outs, span_of(sizes)), checksums);
}

void copy_into(const FfrFiles& table, const U32Array& files, const U64Array& offsets,
               const U64Array& sizes, const MutableByteArray& out, const U64Array& places,
               const std::optional<Checksums>& checksums) {
  const SpanList targets{span_of(places), span_of(sizes)};
  throw_if_error(check_spans(targets, out.size()));
  std::vector<std::byte*> destinations;
  destinations.reserve(places.size());
  for (const std::uint64_t place : targets.offsets) {
    destinations.push_back(writable_bytes_of(out).data() + place);
  }
  copy(table, files, offsets, sizes, destinations, checksums);
}

nb::typed<nb::list, nb::bytes> copy_bytes(const FfrFiles& table, const U32Array& files,
                                          const U64Array& offsets, const U64Array& sizes,
                                          const std::optional<Checksums>& checksums) {
  std::vector<std::byte*> destinations;
  nb::list out = new_bytes(span_of(sizes), destinations);
  copy(table, files, offsets, sizes, destinations, checksums);
  return nb::typed<nb::list, nb::bytes>(std::move(out));
}

}  // namespace

void bind_ffr(nb::module_& module) {
  module.def("check_ffr_offsets", check_offsets, nb::arg("table"), nb::arg("first_allowed"),
             nb::arg("file_size"),
             "Index of the first offset of an .ffr table that is below the one before it (or "
             "first_allowed) or above file_size; -1 when there is none.");
  module.def(
      "check_ffr_header", check_header, nb::arg("header"), nb::arg("file_size"),
      "CRC-32 of the header of an .ffr file, and the index of the first offset that is wrong "
      "or -1, in one pass.");
  nb::class_<FfrFiles>(module, "FfrTable",
                       "Where the samples of .ffr files are, counted one file after the other.")
      .def(nb::init<std::vector<Buffer>, const std::vector<std::uint64_t>&>(), nb::arg("files"),
           nb::arg("counts"), "Take whole files and how many samples each has.")
      .def(
          "__len__", [](const FfrFiles& table) { return table.core.samples(); },
          "Number of samples.")
      .def("locate", locate, nb::arg("indices").noconvert(),
           "File, offset, size and stored checksum of samples; a size of 2**64 - 1 means that the "
           "offsets cannot be right.")
      .def("copy_into_each", copy_into_each, nb::arg("files").noconvert(),
           nb::arg("offsets").noconvert(), nb::arg("sizes").noconvert(), nb::arg("outs"),
           nb::arg("checksums").noconvert() = nb::none(),
           "Copy each span into a writable buffer of exactly its size, with its CRC-32 if wanted.")
      .def("copy_into", copy_into, nb::arg("files").noconvert(), nb::arg("offsets").noconvert(),
           nb::arg("sizes").noconvert(), nb::arg("out").noconvert(), nb::arg("places").noconvert(),
           nb::arg("checksums").noconvert() = nb::none(),
           "Copy each span into out from its place on, with its CRC-32 if wanted.")
      .def("copy_bytes", copy_bytes, nb::arg("files").noconvert(), nb::arg("offsets").noconvert(),
           nb::arg("sizes").noconvert(), nb::arg("checksums").noconvert() = nb::none(),
           "Copy each span to a bytes object, with its CRC-32 if wanted.");
}

}  // namespace headrace::bindings
