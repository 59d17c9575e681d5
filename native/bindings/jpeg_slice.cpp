#include <nanobind/stl/tuple.h>

#include <tuple>

#include "bindings.hpp"
#include "buffer.hpp"
#include "headrace/jpeg/slice.hpp"

namespace headrace::bindings {
namespace {

using Slice = std::tuple<nb::bytes, std::size_t, std::size_t>;

Slice slice(const Buffer& data, const Buffer& index, std::size_t left, std::size_t top,
            std::size_t width, std::size_t height) {
  const ByteSpan bytes = data.bytes();
  const ByteSpan packed = index.bytes();
  JpegSlice out;
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = slice_jpeg(bytes, packed, {left, top, width, height}, out);
  }
  throw_if_error(status);
  return {nb::bytes(out.bytes.data(), out.bytes.size()), out.left, out.top};
}

}  // namespace

void bind_jpeg_slice(nb::module_& module) {
  module.def("slice_jpeg", slice, nb::arg("data"), nb::arg("index"), nb::arg("left"),
             nb::arg("top"), nb::arg("width"), nb::arg("height"),
             "Cut a smaller JPEG that covers the window out of one with a tile index, without "
             "loss; returns it, and the column and row in it at which the window begins.");
}

}  // namespace headrace::bindings
