#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <string>
#include <tuple>
#include <vector>

#include "bindings.hpp"
#include "buffer.hpp"
#include "headrace/images/headers.hpp"
#include "headrace/png.hpp"
#include "headrace/webp.hpp"

namespace headrace::bindings {
namespace {

using DeepImage = Array<std::uint16_t, nb::ndim<3>>;

// The headers take microseconds, so the GIL is kept.
PngInfo png_info(const Buffer& data) { return value_or_throw(read_png_info(data.bytes())); }

WebpInfo webp_info(const Buffer& data) { return value_or_throw(read_webp_info(data.bytes())); }

template <typename Out>
void decode_into(Status (*decode)(ByteSpan, ImageShape, MutableByteSpan) noexcept,
                 const Buffer& data, const Out& out) {
  const ByteSpan bytes = data.bytes();
  const ImageShape want = shape_of(out);
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = decode(bytes, want, writable_bytes_of(out));
  }
  throw_if_error(status);
}

using HeaderArrays =
    std::tuple<NewArray<std::uint8_t, 1>, NewArray<std::uint32_t, 1>, NewArray<std::uint32_t, 1>>;

HeaderArrays picture_headers(const ByteArray& base, const U64Array& offsets, const U64Array& sizes,
                             std::uint64_t max_pixels) {
  const std::size_t n = offsets.size();
  ResultMemory<std::uint8_t> modes(n);
  ResultMemory<std::uint32_t> widths(n), heights(n);
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = read_picture_headers(bytes_of(base), {span_of(offsets), span_of(sizes)}, max_pixels,
                                  {modes.span(), widths.span(), heights.span()});
  }
  throw_if_error(status);
  return {modes.to_array(), widths.to_array(), heights.to_array()};
}

std::vector<std::string> decoders() {
  std::vector<std::string> names{"JPEG"};
  if (has_png_decoder()) names.emplace_back("PNG");
  if (has_webp_decoder()) names.emplace_back("WebP");
  return names;
}

void bind_png(nb::module_& module) {
  nb::class_<PngInfo>(module, "PngInfo", "What the chunks before the pixels of a PNG say.")
      .def_ro("width", &PngInfo::width)
      .def_ro("height", &PngInfo::height)
      .def_ro("bit_depth", &PngInfo::bit_depth)
      .def_prop_ro("channels", &PngInfo::channels)
      .def_prop_ro("plain", &PngInfo::is_plain,
                   "decode_png takes it, unless it is transparent somewhere.");
  module.def("png_info", png_info, nb::arg("data"), "Read the headers of a PNG.");
  module.def(
      "decode_png",
      [](const Buffer& data, const MutableImage& out) { decode_into(decode_png, data, out); },
      nb::arg("data"), nb::arg("out").noconvert(),
      "Decode a plain PNG to RGB pixels of exactly the size of out.");
  module.def(
      "decode_deep_png",
      [](const Buffer& data, const DeepImage& out) { decode_into(decode_deep_png, data, out); },
      nb::arg("data"), nb::arg("out").noconvert(),
      "Decode a PNG of 16 bits a channel to numbers of exactly the shape of out.");
}

void bind_webp(nb::module_& module) {
  nb::class_<WebpInfo>(module, "WebpInfo", "What the header of a WebP says.")
      .def_ro("width", &WebpInfo::width)
      .def_ro("height", &WebpInfo::height)
      .def_ro("has_alpha", &WebpInfo::has_alpha)
      .def_ro("animated", &WebpInfo::is_animated);
  module.def("webp_info", webp_info, nb::arg("data"), "Read the header of a WebP.");
  module.def(
      "decode_webp",
      [](const Buffer& data, const MutableImage& out) { decode_into(decode_webp, data, out); },
      nb::arg("data"), nb::arg("out").noconvert(),
      "Decode a WebP to RGB pixels of exactly the size of out.");
}

}  // namespace

void bind_pictures(nb::module_& module) {
  module.def("picture_decoders", decoders, "Kinds of pictures that this build decodes by itself.");
  module.def("picture_headers", picture_headers, nb::arg("base").noconvert(),
             nb::arg("offsets").noconvert(), nb::arg("sizes").noconvert(), nb::arg("max_pixels"),
             "Modes, widths and heights of the pictures in the (offset, size) spans of base; sides "
             "are 0 for what the loader does not take as it is.");
  bind_png(module);
  bind_webp(module);
}

}  // namespace headrace::bindings
