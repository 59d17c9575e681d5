#include "headrace/images/load.hpp"

#include <nanobind/stl/array.h>

#include "load_arguments.hpp"

namespace headrace::bindings {
namespace {

using BatchArray = nb::ndarray<nb::c_contig, nb::device::cpu, nb::ndim<4>>;

LoadReport load(Loader& loader, const Spans& spans, const std::optional<Crops>& crops,
                const std::optional<ByteArray>& flips, const BatchArray& out,
                const Options& options, const Steps& steps) {
  const LoadOptions wanted = options.with_output(out);
  const LoadArguments arguments(spans, crops, flips, out, steps);
  const MutableByteSpan bytes{static_cast<std::byte*>(out.data()), out.nbytes()};
  LoadReport report;
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = loader.core().load(arguments.base(), arguments.batch(), wanted, bytes, report);
  }
  throw_if_error(status);
  return report;
}

void bind_options(nb::module_& module) {
  nb::class_<Options>(
      module, "LoadOptions",
      "What ImageLoader.load makes of every batch. A table, of the type of the "
      "output, has the value of every channel and level, instead of scale and "
      "bias. With a fill (r, g, b), crops of the size of the output may stick out "
      "of their image, and it stands there. reduced decodes JPEGs at 1/2, 1/4 or "
      "1/8 where the crop stays above the output. jpeg is \"window\", which decodes "
      "only what a crop needs where the pixels are those of libjpeg-turbo; "
      "\"slice\", where libjpeg-turbo decodes what a tile index cuts out; or "
      "\"libjpeg\". fast is an inverse DCT in 16 bits and colours at the size of "
      "the output, for the area and bilinear filters and where \"window\" uses the "
      "window decoder.")
      .def(nb::init<bool, std::string_view, const Factors&, const Factors&, const OutputTable&,
                    const std::optional<Colour>&, bool, bool, std::string_view, bool>(),
           nb::kw_only(), nb::arg("channels_first") = false, nb::arg("interpolation") = "area",
           nb::arg("scale").noconvert() = nb::none(), nb::arg("bias").noconvert() = nb::none(),
           nb::arg("table").noconvert() = nb::none(), nb::arg("fill") = nb::none(),
           nb::arg("fast_dct") = false, nb::arg("reduced") = false, nb::arg("jpeg") = "window",
           nb::arg("fast") = false);
}

void bind_report(nb::module_& module) {
  nb::class_<LoadFailure>(module, "LoadFailure", "An image that failed; its slot is zero.")
      .def_ro("position", &LoadFailure::position)
      .def_prop_ro("code", [](const LoadFailure& self) { return code_name(self.status.code()); })
      .def_prop_ro("detail", [](const LoadFailure& self) { return self.status.detail(); });
  nb::class_<LoadNote>(module, "LoadNote",
                       "A JPEG that was decoded in spite of a broken tile index (kind "
                       "\"tile_index\") or of damaged codes (\"damage\").")
      .def_ro("position", &LoadNote::position)
      .def_prop_ro("kind",
                   [](const LoadNote& self) {
                     return std::string_view(self.is_of_tile_index ? "tile_index" : "damage");
                   })
      .def_prop_ro("detail", [](const LoadNote& self) { return self.status.detail(); });
  nb::class_<LoadCounts>(
      module, "LoadCounts",
      "How many JPEGs were decoded by the GPU, by a tile index, without one, and "
      "by libjpeg because of the options, the kind or damage; and how many tile "
      "indices were rejected.")
      .def(nb::init<>())
      .def_rw("gpu", &LoadCounts::gpu)
      .def_rw("window", &LoadCounts::window)
      .def_rw("window_without_tile_index", &LoadCounts::window_without_tile_index)
      .def_rw("libjpeg_by_options", &LoadCounts::libjpeg_by_options)
      .def_rw("libjpeg_by_kind", &LoadCounts::libjpeg_by_kind)
      .def_rw("libjpeg_by_damage", &LoadCounts::libjpeg_by_damage)
      .def_rw("rejected_tile_indices", &LoadCounts::rejected_tile_indices)
      .def(
          "add", [](LoadCounts& self, const LoadCounts& others) { self += others; },
          nb::arg("others"), "Count those of another batch, too.");
  nb::class_<LoadTimes>(module, "LoadTimes",
                        "Nanoseconds that the loader's threads worked on a batch, all of them "
                        "together, by stage.")
      .def(nb::init<>())
      .def_ro("check_ns", &LoadTimes::check_ns, "Finding the bytes and comparing checksums.")
      .def_ro("decode_ns", &LoadTimes::decode_ns, "JPEG, PNG or WebP to pixels.")
      .def_ro("resize_ns", &LoadTimes::resize_ns,
              "Pixels to the rows of the output: resample, flip, scale, copy.")
      .def_ro("ops_ns", &LoadTimes::ops_ns, "Steps.");
  nb::class_<LoadReport>(module, "LoadReport", "What there is to tell of a batch.")
      .def_ro("failures", &LoadReport::failures, "By position.")
      .def_ro("notes", &LoadReport::notes, "By position.")
      .def_ro("counts", &LoadReport::counts)
      .def_ro("times", &LoadReport::times, "On a GPU: of what the CPU decodes.");
}

}  // namespace

void bind_load(nb::module_& module) {
  bind_options(module);
  bind_report(module);
  nb::class_<Loader>(
      module, "ImageLoader",
      "Threads that turn stored images into batches; several threads may call load at once.")
      .def(nb::init<std::size_t>(), nb::arg("threads"))
      .def_prop_rw(
          "threads", &Loader::threads, &Loader::set_threads,
          "Threads that decode; they start with the first load that has more to do than to copy. "
          "May be changed at any time, and counts from the next load on.")
      .def("load", load, nb::arg("spans"), nb::arg("crops").noconvert(),
           nb::arg("flips").noconvert(), nb::arg("out").noconvert(), nb::arg("options"),
           nb::arg("steps").noconvert() = Steps(),
           "Decode, crop (top, left, height, width; None takes images whole), resize, flip (None: "
           "none) and scale stored images into out. Steps are done in order before scaling: (kind, "
           "values of shape (images, k)) with "
           "kind and values brightness, contrast, saturation or sharpness (factor), flip or "
           "vertical_flip (not 0), cutout (top, left, height, width, r, g, b), translate (dy, dx, "
           "r, g, b), turn (quarters), affine (a, b, c, d, e, f, r, g, b), noise (top, left, "
           "height, width, two halves of a seed), hue (share of the circle), posterize (bits), "
           "solarize (threshold), autocontrast or equalize (not 0), blur (sigma, taps), or choice "
           "(the number of a kind in step_kinds(), and its values up to 9). Where 0 is a value "
           "like others, NaN does nothing.");
  module.def(
      "step_kinds",
      [] {
        const auto names = step_kind_names();
        return std::vector<std::string>(names.begin(), names.end());
      },
      "The kinds of steps that ImageLoader.load knows, by number.");
}

}  // namespace headrace::bindings
