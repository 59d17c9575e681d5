#include "headrace/images/load.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bindings.hpp"

namespace headrace::bindings {
namespace {

using U32Array = Array<const std::uint32_t, nb::ndim<1>>;
using Crops = Array<const std::int32_t, nb::shape<-1, 4>>;
using Factors = std::optional<Array<const float, nb::shape<3>>>;
using OutputTable =
    std::optional<nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu, nb::shape<3, 256>>>;
using StepValues = Array<const float, nb::ndim<2>>;
using Steps = std::vector<std::pair<std::string, StepValues>>;
using BatchArray = nb::ndarray<nb::c_contig, nb::device::cpu, nb::ndim<4>>;

class Loader {
 public:
  explicit Loader(std::size_t threads) : loader_(value_or_throw(ImageLoader::create(threads))) {}

  [[nodiscard]] ImageLoader& core() const noexcept { return *loader_; }
  [[nodiscard]] std::size_t threads() const noexcept { return loader_->threads(); }

 private:
  std::unique_ptr<ImageLoader> loader_;
};

ImageShape output_shape(const BatchArray& out, bool channels_first) {
  if (out.shape(channels_first ? 1 : 3) != kRgbChannels) {
    throw_invalid(
        Detail("out must have the shape ")
        << (channels_first ? "(images, 3, height, width)" : "(images, height, width, 3)"));
  }
  return channels_first ? ImageShape{out.shape(3), out.shape(2)}
                        : ImageShape{out.shape(2), out.shape(1)};
}

ResampleFilter filter_of(std::string_view name) {
  if (name == "area") return ResampleFilter::area;
  if (name == "bilinear") return ResampleFilter::bilinear;
  if (name == "bicubic") return ResampleFilter::bicubic;
  if (name == "lanczos") return ResampleFilter::lanczos;
  if (name == "nearest") return ResampleFilter::nearest;
  if (name == "opencv_area") return ResampleFilter::opencv_area;
  throw_invalid(Detail("unknown interpolation '")
                << name
                << "'; known are area, bilinear, bicubic, lanczos, nearest and opencv_area");
}

void set_factors(const Factors& factors, std::array<float, kRgbChannels>& out) {
  if (factors) std::copy_n(factors->data(), kRgbChannels, out.begin());
}

JpegDecoder decoder_of(std::string_view name) {
  if (name == "window") return JpegDecoder::window;
  if (name == "slice") return JpegDecoder::slice;
  if (name == "libjpeg") return JpegDecoder::libjpeg;
  throw_invalid(Detail("unknown JPEG decoder '")
                << name << "'; known are window, slice and libjpeg");
}

// Settings that stay the same from batch to batch. What the output says is added for each.
class Options {
 public:
  Options(bool channels_first, std::string_view interpolation, const Factors& scale,
          const Factors& bias, const OutputTable& table, const std::optional<Colour>& fill,
          bool fast_dct, bool reduced, std::string_view jpeg, bool fast)
      : options_{.is_channels_first = channels_first,
                 .filter = filter_of(interpolation),
                 .fill = fill,
                 .fast_dct = fast_dct,
                 .is_reduced = reduced,
                 .jpeg = decoder_of(jpeg),
                 .is_fast = fast},
        table_(table),
        has_factors_(scale || bias) {
    if (table && has_factors_) {
      throw_invalid(Detail("a table takes the place of scale and bias: give one"));
    }
    if (table) options_.table = bytes_of(*table);
    set_factors(scale, options_.scale);
    set_factors(bias, options_.bias);
  }

  [[nodiscard]] LoadOptions with_output(const BatchArray& out) const {
    LoadOptions options = options_;
    options.shape = output_shape(out, options.is_channels_first);
    options.type = output_type_of(out, "out");
    const bool is_integer = options.type == OutputType::uint8;
    if (is_integer && has_factors_) {
      throw_invalid(Detail("scale and bias need a float16 or float32 output"));
    }
    if (table_ && (is_integer || output_type_of(*table_, "table") != options.type)) {
      throw_invalid(Detail("table must be float16 or float32, and out of the same type"));
    }
    return options;
  }

 private:
  LoadOptions options_;
  OutputTable table_;  // keeps its bytes
  bool has_factors_;
};

// A headrace.types.ImageSpans.
struct Spans {
  nb::object object;
};

template <typename A>
A array_of(nb::handle value, std::string_view name) {
  A array;
  if (!nb::try_cast<A>(value, array, false)) {
    throw_invalid(Detail("spans.") << name << " has another type or shape, or has gaps");
  }
  return array;
}

// Where the images of a batch are stored, and the arrays that say so.
class StoredImages {
 public:
  explicit StoredImages(const nb::object& spans)
      : base_(array_of<ByteArray>(spans.attr("base"), "base")),
        offsets_(array_of<U64Array>(spans.attr("offsets"), "offsets")),
        sizes_(array_of<U64Array>(spans.attr("sizes"), "sizes")),
        modes_(array_of<ByteArray>(spans.attr("modes"), "modes")),
        widths_(array_of<U32Array>(spans.attr("widths"), "widths")),
        heights_(array_of<U32Array>(spans.attr("heights"), "heights")) {
    const nb::object checksums = spans.attr("checksums");
    if (!checksums.is_none()) set_checksums(checksums);
    const nb::object tile_indices = spans.attr("tile_indices");
    if (!tile_indices.is_none()) set_tile_indices(tile_indices);
  }

  [[nodiscard]] std::size_t size() const noexcept { return offsets_.size(); }
  [[nodiscard]] ByteSpan base() const noexcept { return bytes_of(base_); }
  [[nodiscard]] LoadBatch batch() const noexcept {
    LoadBatch batch;
    batch.offsets = span_of(offsets_);
    batch.sizes = span_of(sizes_);
    batch.modes = span_of(modes_);
    batch.widths = span_of(widths_);
    batch.heights = span_of(heights_);
    if (checksums_.is_valid()) batch.checksums = span_of(checksums_);
    if (tile_indices_.is_valid()) {
      batch.tile_indices = bytes_of(tile_indices_);
      batch.tile_index_offsets = span_of(tile_index_offsets_);
      batch.tile_index_sizes = span_of(tile_index_sizes_);
    }
    return batch;
  }

 private:
  // Checked here: to the core, an empty array says that there are none.
  void set_checksums(const nb::object& checksums) {
    checksums_ = array_of<U32Array>(checksums, "checksums");
    if (checksums_.size() == size()) return;
    throw_invalid(Detail("checksums has ")
                  << std::uint64_t{checksums_.size()} << " entries, not one for each of " << size()
                  << " images");
  }
  void set_tile_indices(const nb::object& tile_indices) {
    if (nb::len(tile_indices) != 3) throw_invalid(Detail("spans.tile_indices needs three arrays"));
    tile_indices_ = array_of<ByteArray>(tile_indices[0], "tile_indices");
    tile_index_offsets_ = array_of<U64Array>(tile_indices[1], "tile_indices");
    tile_index_sizes_ = array_of<U64Array>(tile_indices[2], "tile_indices");
    if (tile_index_offsets_.size() == size() && tile_index_sizes_.size() == size()) return;
    throw_invalid(Detail("tile indices need an offset and a size for each of ")
                  << size() << " images");
  }

  ByteArray base_;
  U64Array offsets_;
  U64Array sizes_;
  ByteArray modes_;
  U32Array widths_;
  U32Array heights_;
  U32Array checksums_;
  ByteArray tile_indices_;
  U64Array tile_index_offsets_;
  U64Array tile_index_sizes_;
};

PixelStep step_of(const std::string& name, const StepValues& values, std::size_t images) {
  const auto kind = parse_step_kind(name);
  if (!kind) {
    throw_invalid(Detail("unknown step '") << name << "'; known are those of step_kinds()");
  }
  const std::size_t size = values_per_picture(*kind);
  if (values.shape(0) != images || values.shape(1) != size) {
    throw_invalid(Detail("step ") << name << " needs values of the shape (" << images << ", "
                                  << size << "), not (" << values.shape(0) << ", "
                                  << values.shape(1) << ")");
  }
  return {*kind, span_of(values)};
}

std::vector<PixelStep> steps_of(const Steps& steps, std::size_t images) {
  std::vector<PixelStep> out;
  for (const auto& [name, values] : steps) out.push_back(step_of(name, values, images));
  return out;
}

// Checked here: to the core, an empty array says that all images are wanted as they are.
template <typename T, typename A>
std::span<const T> span_of_all(const std::optional<A>& values, std::size_t images,
                               std::string_view name) {
  if (!values) return {};
  if (values->shape(0) == images) return span_of(*values);
  throw_invalid(Detail(name) << " has " << std::uint64_t{values->shape(0)}
                             << " entries, not one for each of " << images << " images");
}

LoadReport load(Loader& loader, const Spans& spans, const std::optional<Crops>& crops,
                const std::optional<ByteArray>& flips, const BatchArray& out,
                const Options& options, const Steps& steps) {
  const LoadOptions wanted = options.with_output(out);
  const StoredImages images(spans.object);
  if (out.shape(0) != images.size()) {
    throw_invalid(Detail("out has room for ")
                  << std::uint64_t{out.shape(0)} << " images, not for " << images.size());
  }
  const std::vector<PixelStep> pixel_steps = steps_of(steps, images.size());
  LoadBatch batch = images.batch();
  batch.crops = span_of_all<std::int32_t>(crops, images.size(), "crops");
  batch.flips = span_of_all<std::uint8_t>(flips, images.size(), "flips");
  batch.steps = pixel_steps;
  const MutableByteSpan bytes{static_cast<std::byte*>(out.data()), out.nbytes()};
  LoadReport report;
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = loader.core().load(images.base(), batch, wanted, bytes, report);
  }
  throw_if_error(status);
  return report;
}

void add(LoadCounts& counts, const LoadCounts& others) noexcept {
  counts.window += others.window;
  counts.window_without_tile_index += others.window_without_tile_index;
  counts.libjpeg_by_options += others.libjpeg_by_options;
  counts.libjpeg_by_kind += others.libjpeg_by_kind;
  counts.libjpeg_by_damage += others.libjpeg_by_damage;
  counts.rejected_tile_indices += others.rejected_tile_indices;
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
  nb::class_<LoadCounts>(module, "LoadCounts",
                         "How many JPEGs were decoded by a tile index, without one, and by libjpeg "
                         "because of the options, the kind or damage; and how many tile indices "
                         "were rejected.")
      .def(nb::init<>())
      .def_ro("window", &LoadCounts::window)
      .def_ro("window_without_tile_index", &LoadCounts::window_without_tile_index)
      .def_ro("libjpeg_by_options", &LoadCounts::libjpeg_by_options)
      .def_ro("libjpeg_by_kind", &LoadCounts::libjpeg_by_kind)
      .def_ro("libjpeg_by_damage", &LoadCounts::libjpeg_by_damage)
      .def_ro("rejected_tile_indices", &LoadCounts::rejected_tile_indices)
      .def("add", add, nb::arg("others"), "Count those of another batch, too.");
  nb::class_<LoadReport>(module, "LoadReport", "What there is to tell of a batch.")
      .def_ro("failures", &LoadReport::failures, "By position.")
      .def_ro("notes", &LoadReport::notes, "By position.")
      .def_ro("counts", &LoadReport::counts);
}

}  // namespace
}  // namespace headrace::bindings

template <>
struct nanobind::detail::type_caster<headrace::bindings::Spans> {
  NB_TYPE_CASTER(headrace::bindings::Spans, const_name("headrace.types.ImageSpans"))

  bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
    value.object = borrow(source);
    return true;
  }
};

namespace headrace::bindings {

void bind_load(nb::module_& module) {
  bind_options(module);
  bind_report(module);
  nb::class_<Loader>(
      module, "ImageLoader",
      "Threads that turn stored images into batches; several threads may call load at once.")
      .def(nb::init<std::size_t>(), nb::arg("threads"))
      .def_prop_ro(
          "threads", &Loader::threads,
          "Threads that decode; they start with the first load that has more to do than to copy.")
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
