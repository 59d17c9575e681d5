#include "headrace/zlib_stream.hpp"

#include <nanobind/stl/optional.h>

#include <optional>

#include "bindings.hpp"

namespace headrace::bindings {
namespace {

std::optional<std::size_t> inflated(const ByteArray& stream, const MutableByteArray& out) {
  const ByteSpan bytes = bytes_of(stream);
  const std::span<std::uint8_t> memory = span_of(out);
  nb::gil_scoped_release unlocked;
  return inflate_stream(bytes, memory);
}

}  // namespace

void bind_zlib_stream(nb::module_& module) {
  module.def(
      "inflate_into", inflated, nb::arg("stream").noconvert(), nb::arg("out").noconvert(),
      "Unpack a stream of zlib into an array, and give the number of bytes. None when zlib "
      "has to be asked: the stream is damaged or has more bytes, or there is no libdeflate.");
}

}  // namespace headrace::bindings
