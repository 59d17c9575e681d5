#include "headrace/resample/resize.hpp"

#include "bindings.hpp"

namespace headrace::bindings {
namespace {

void resize_into(const Image& pixels, const MutableImage& out) {
  const ImageShape shape = shape_of(pixels);
  const ImageShape out_shape = shape_of(out);
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = resize_area(bytes_of(pixels), shape, writable_bytes_of(out), out_shape);
  }
  throw_if_error(status);
}

}  // namespace

void bind_resize(nb::module_& module) {
  module.def("resize_area", resize_into, nb::arg("pixels").noconvert(), nb::arg("out").noconvert(),
             "Shrink RGB pixels to the size of out by area averaging.");
}

}  // namespace headrace::bindings
