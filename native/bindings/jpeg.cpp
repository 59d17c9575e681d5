#include <nanobind/stl/string_view.h>

#include <vector>

#include "bindings.hpp"
#include "buffer.hpp"
#include "headrace/jpeg/codec.hpp"

namespace headrace::bindings {
namespace {

JpegInfo jpeg_info(const Buffer& data) {
  // A microsecond: handing the GIL to another thread and asking for it again would take longer.
  return value_or_throw(read_jpeg_info(data.bytes()));
}

void decode_into(const Buffer& data, const MutableImage& out, bool fast_dct) {
  const ByteSpan bytes = data.bytes();
  const ImageShape want = shape_of(out);
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = decode_jpeg(bytes, {.fast_dct = fast_dct}, want, writable_bytes_of(out));
  }
  throw_if_error(status);
}

nb::bytes encode(const Image& pixels, int quality) {
  const ImageShape shape = shape_of(pixels);
  std::vector<std::byte> out;
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = encode_jpeg(bytes_of(pixels), shape, shape.width * kRgbChannels, quality, out);
  }
  throw_if_error(status);
  return nb::bytes(out.data(), out.size());
}

}  // namespace

void bind_jpeg(nb::module_& module) {
  nb::class_<JpegInfo>(module, "JpegInfo", "What the header of a JPEG says.")
      .def_ro("width", &JpegInfo::width)
      .def_ro("height", &JpegInfo::height)
      .def_ro("components", &JpegInfo::components)
      .def_ro("precision", &JpegInfo::precision)
      .def_prop_ro("color_space",
                   [](const JpegInfo& info) { return color_space_name(info.color_space); })
      .def_ro("progressive", &JpegInfo::is_progressive)
      .def_ro("arithmetic", &JpegInfo::is_arithmetic)
      .def_ro("lossless", &JpegInfo::is_lossless);
  module.def("jpeg_info", jpeg_info, nb::arg("data"), "Read the header of a JPEG.");
  module.def("decode_jpeg", decode_into, nb::arg("data"), nb::arg("out").noconvert(),
             nb::arg("fast_dct") = false,
             "Decode a JPEG to RGB pixels of exactly the size of out.");
  module.def("encode_jpeg", encode, nb::arg("pixels").noconvert(), nb::arg("quality"),
             "Encode RGB pixels as a baseline 4:2:0 JPEG of quality 1 to 100.");
}

}  // namespace headrace::bindings
