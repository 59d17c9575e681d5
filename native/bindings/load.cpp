#include "headrace/images/load.hpp"

#include <nanobind/stl/array.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings.hpp"

namespace headrace::bindings {
namespace {

using U8Array = Array<const std::uint8_t, nb::ndim<1>>;
using U32Array = Array<const std::uint32_t, nb::ndim<1>>;
using Crops = Array<const std::int32_t, nb::shape<-1, 4>>;
using Factors = std::optional<Array<const float, nb::shape<3>>>;
using Table = std::optional<nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu, nb::shape<3, 256>>>;
using StepValues = Array<const float, nb::ndim<2>>;
using Steps = std::optional<std::vector<std::pair<std::string, StepValues>>>;
using Fill = std::optional<Colour>;
using Tiles = std::optional<std::tuple<ByteArray, U64Array, U64Array>>;
using Counts = std::optional<Array<std::uint64_t, nb::shape<6>>>;
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

ByteSpan table_of(const Table& table, OutputType type, const Factors& scale, const Factors& bias) {
  if (!table) return {};
  if (scale || bias) throw_invalid(Detail("a table takes the place of scale and bias: give one"));
  if (type == OutputType::uint8 || output_type_of(*table, "table") != type) {
    throw_invalid(Detail("table must be float16 or float32, and out of the same type"));
  }
  return bytes_of(*table);
}

// Checked here: to the core, an empty array says that there are no checksums.
std::span<const std::uint32_t> checksums_of(const U32Array& checksums, std::size_t images) {
  if (checksums.size() != images) {
    throw_invalid(Detail("checksums has ")
                  << std::uint64_t{checksums.size()} << " entries, not one for each of " << images
                  << " images");
  }
  return span_of(checksums);
}

JpegDecoder decoder_of(std::string_view name) {
  if (name == "window") return JpegDecoder::window;
  if (name == "slice") return JpegDecoder::slice;
  if (name == "libjpeg") return JpegDecoder::libjpeg;
  throw_invalid(Detail("unknown JPEG decoder '")
                << name << "'; known are window, slice and libjpeg");
}

// Checked here: to the core, empty arrays say that there are no indices.
void set_tiles(const Tiles& tiles, std::size_t images, LoadBatch& batch) {
  if (!tiles) return;
  const auto& [base, offsets, sizes] = *tiles;
  if (offsets.size() != images || sizes.size() != images) {
    throw_invalid(Detail("tiles needs an offset and a size for each of ") << images << " images");
  }
  batch.tiles = bytes_of(base);
  batch.tile_offsets = span_of(offsets);
  batch.tile_sizes = span_of(sizes);
}

void add_counts(const LoadCounts& counts, const Counts& out) {
  if (!out) return;
  const std::uint64_t values[] = {counts.window,          counts.window_without_tiles,
                                  counts.libjpeg_chosen,  counts.libjpeg_unsupported,
                                  counts.libjpeg_damaged, counts.rejected_tiles};
  for (std::size_t i = 0; i < std::size(values); ++i) out->data()[i] += values[i];
}

using Notes = std::optional<nb::typed<nb::list, nb::typed<nb::tuple, nb::int_, nb::str, nb::str>>>;

void add_notes(const std::vector<LoadNote>& notes, Notes& out) {
  if (!out) return;
  for (const LoadNote& note : notes) {
    const std::string_view detail = note.status.detail();
    out->append(nb::make_tuple(note.position, note.is_of_tiles ? "index" : "damage",
                               nb::str(detail.data(), detail.size())));
  }
}

PixelStep step_of(const std::string& name, const StepValues& values, std::size_t images) {
  const auto kind = parse_step_kind(name);
  if (!kind) {
    throw_invalid(Detail("unknown step '") << name
                                           << "'; known are brightness, contrast, saturation, "
                                              "flip, cutout and translate");
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
  if (!steps) return out;
  for (const auto& [name, values] : *steps) out.push_back(step_of(name, values, images));
  return out;
}

using Failures = nb::typed<nb::list, nb::typed<nb::tuple, nb::int_, nb::str, nb::str>>;

Failures to_list(const std::vector<LoadFailure>& failures) {
  nb::list out;
  for (const LoadFailure& failure : failures) {
    const std::string_view code = code_name(failure.status.code());
    const std::string_view detail = failure.status.detail();
    out.append(nb::make_tuple(failure.position, nb::str(code.data(), code.size()),
                              nb::str(detail.data(), detail.size())));
  }
  return Failures(std::move(out));
}

Failures load(Loader& loader, const ByteArray& base, const U64Array& offsets, const U64Array& sizes,
              const U8Array& modes, const U32Array& widths, const U32Array& heights,
              const Crops& crops, const U8Array& flips, const BatchArray& out, bool channels_first,
              std::string_view interpolation, const Factors& scale, const Factors& bias,
              bool fast_dct, bool reduced, const std::optional<U32Array>& checksums,
              const Steps& steps, const Table& table, const Tiles& tiles, std::string_view jpeg,
              const Counts& counts, Notes notes, bool fast, const Fill& fill) {
  LoadOptions options{.shape = output_shape(out, channels_first),
                      .type = output_type_of(out, "out"),
                      .is_channels_first = channels_first,
                      .filter = filter_of(interpolation),
                      .fill = fill,
                      .fast_dct = fast_dct,
                      .is_reduced = reduced,
                      .jpeg = decoder_of(jpeg),
                      .is_fast = fast};
  if (options.type == OutputType::uint8 && (scale || bias)) {
    throw_invalid(Detail("scale and bias need a float16 or float32 output"));
  }
  options.table = table_of(table, options.type, scale, bias);
  set_factors(scale, options.scale);
  set_factors(bias, options.bias);
  if (out.shape(0) != offsets.size()) {
    throw_invalid(Detail("out has room for ") << std::uint64_t{out.shape(0)} << " images, not for "
                                              << std::uint64_t{offsets.size()});
  }
  LoadBatch batch{span_of(offsets), span_of(sizes), span_of(modes), span_of(widths),
                  span_of(heights), span_of(crops), span_of(flips)};
  const std::vector<PixelStep> pixel_steps = steps_of(steps, offsets.size());
  batch.steps = pixel_steps;
  set_tiles(tiles, offsets.size(), batch);
  if (checksums) batch.checksums = checksums_of(*checksums, offsets.size());
  const MutableByteSpan bytes{static_cast<std::byte*>(out.data()), out.nbytes()};
  std::vector<LoadFailure> failures;
  LoadCounts found;
  Status status;
  {
    nb::gil_scoped_release unlocked;
    status = loader.core().load(bytes_of(base), batch, options, bytes, failures, &found);
  }
  throw_if_error(status);
  add_counts(found, counts);
  add_notes(found.notes, notes);
  return to_list(failures);
}

}  // namespace

void bind_load(nb::module_& module) {
  nb::class_<Loader>(
      module, "ImageLoader",
      "Threads that turn stored images into batches; several threads may call load at once.")
      .def(nb::init<std::size_t>(), nb::arg("threads"))
      .def_prop_ro(
          "threads", &Loader::threads,
          "Threads that decode; they start with the first load, callers of load only wait.")
      .def("load", load, nb::arg("base").noconvert(), nb::arg("offsets").noconvert(),
           nb::arg("sizes").noconvert(), nb::arg("modes").noconvert(),
           nb::arg("widths").noconvert(), nb::arg("heights").noconvert(),
           nb::arg("crops").noconvert(), nb::arg("flips").noconvert(), nb::arg("out").noconvert(),
           nb::arg("channels_first"), nb::arg("interpolation"),
           nb::arg("scale").noconvert() = nb::none(), nb::arg("bias").noconvert() = nb::none(),
           nb::arg("fast_dct") = false, nb::arg("reduced") = false,
           nb::arg("checksums").noconvert() = nb::none(), nb::arg("steps").noconvert() = nb::none(),
           nb::arg("table").noconvert() = nb::none(), nb::arg("tiles").noconvert() = nb::none(),
           nb::arg("jpeg") = "window", nb::arg("counts").noconvert() = nb::none(),
           nb::arg("notes") = nb::none(), nb::arg("fast") = false, nb::arg("fill") = nb::none(),
           "Decode, crop (top, left, height, width), resize, flip and scale stored images into "
           "out; returns (position, error code, detail) of those that failed and are zero. Modes "
           "are 0 for JPEG and 1 for raw; checksums are the CRC-32C of the stored bytes. A table, "
           "of "
           "the type of out, has the output of every channel and value, instead of scale and bias. "
           "Steps are done in order before scaling: (kind, values of shape (images, k)) with kind "
           "and values brightness, contrast or saturation (factor; NaN does nothing), flip (not "
           "0), cutout (top, left, height, width, r, g, b) or translate (dy, dx, r, g, b). "
           "Tiles are packed tile indices: a region, and an offset and a size (0: none) for each "
           "image. jpeg is \"window\", which decodes only what a crop needs where the pixels are "
           "those of libjpeg-turbo; \"slice\", where libjpeg-turbo decodes what a tile index cuts "
           "out; or \"libjpeg\". How many JPEGs were decoded by a tile index, "
           "without one, and by libjpeg because of the options, the kind or damage, and how many "
           "indices were rejected, is added to the six counts; (position, \"index\" or \"damage\", "
           "detail) of JPEGs that were decoded in spite of a broken index or damaged codes to "
           "notes. fast is an inverse DCT in 16 bits and colours at the size of out, for the area "
           "and bilinear filters and where \"window\" uses the window decoder. With a fill (r, g, "
           "b), "
           "crops of the size of out may stick out of their image, and it stands there.");
}

}  // namespace headrace::bindings
