// What loaders take from Python, on the CPU (load.cpp) and on a GPU (gpu.cpp).
#pragma once

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
#include "headrace/images/load.hpp"

namespace headrace::bindings {

using U32Array = Array<const std::uint32_t, nb::ndim<1>>;
using Crops = Array<const std::int32_t, nb::shape<-1, 4>>;
using Factors = std::optional<Array<const float, nb::shape<3>>>;
using OutputTable =
    std::optional<nb::ndarray<nb::ro, nb::c_contig, nb::device::cpu, nb::shape<3, 256>>>;
using StepValues = Array<const float, nb::ndim<2>>;
using Steps = std::vector<std::pair<std::string, StepValues>>;

class Loader {
 public:
  explicit Loader(std::size_t threads) : loader_(value_or_throw(ImageLoader::create(threads))) {}

  [[nodiscard]] ImageLoader& core() const noexcept { return *loader_; }
  [[nodiscard]] std::size_t threads() const noexcept { return loader_->threads(); }
  void set_threads(std::size_t threads) { throw_if_error(loader_->set_threads(threads)); }

 private:
  std::unique_ptr<ImageLoader> loader_;
};

template <typename A>
ImageShape output_shape(const A& out, bool channels_first) {
  if (out.shape(channels_first ? 1 : 3) != kRgbChannels) {
    throw_invalid(
        Detail("out must have the shape ")
        << (channels_first ? "(images, 3, height, width)" : "(images, height, width, 3)"));
  }
  return channels_first ? ImageShape{out.shape(3), out.shape(2)}
                        : ImageShape{out.shape(2), out.shape(1)};
}

inline ResampleFilter filter_of(std::string_view name) {
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

inline void set_factors(const Factors& factors, std::array<float, kRgbChannels>& out) {
  if (factors) std::copy_n(factors->data(), kRgbChannels, out.begin());
}

inline JpegDecoder decoder_of(std::string_view name) {
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

  // Without what the output says.
  [[nodiscard]] const LoadOptions& common() const noexcept { return options_; }

  template <typename A>
  [[nodiscard]] LoadOptions with_output(const A& out) const {
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

inline StepKind step_kind_of(const std::string& name) {
  const auto kind = parse_step_kind(name);
  if (kind) return *kind;
  throw_invalid(Detail("unknown step '") << name << "'; known are those of step_kinds()");
}

inline PixelStep step_of(const std::string& name, const StepValues& values, std::size_t images) {
  const StepKind kind = step_kind_of(name);
  const std::size_t size = values_per_picture(kind);
  if (values.shape(0) != images || values.shape(1) != size) {
    throw_invalid(Detail("step ") << name << " needs values of the shape (" << images << ", "
                                  << size << "), not (" << values.shape(0) << ", "
                                  << values.shape(1) << ")");
  }
  return {kind, span_of(values)};
}

inline std::vector<PixelStep> steps_of(const Steps& steps, std::size_t images) {
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

// All that a call says of its pictures, checked; keeps the arrays that it names.
class LoadArguments {
 public:
  template <typename A>
  LoadArguments(const Spans& spans, const std::optional<Crops>& crops,
                const std::optional<ByteArray>& flips, const A& out, const Steps& steps)
      : images_(spans.object), steps_(steps_of(steps, images_.size())), batch_(images_.batch()) {
    if (out.shape(0) != images_.size()) {
      throw_invalid(Detail("out has room for ")
                    << std::uint64_t{out.shape(0)} << " images, not for " << images_.size());
    }
    batch_.crops = span_of_all<std::int32_t>(crops, images_.size(), "crops");
    batch_.flips = span_of_all<std::uint8_t>(flips, images_.size(), "flips");
    batch_.steps = steps_;
  }

  [[nodiscard]] ByteSpan base() const noexcept { return images_.base(); }
  [[nodiscard]] const LoadBatch& batch() const noexcept { return batch_; }

 private:
  StoredImages images_;
  std::vector<PixelStep> steps_;
  LoadBatch batch_;
};

}  // namespace headrace::bindings

template <>
struct nanobind::detail::type_caster<headrace::bindings::Spans> {
  NB_TYPE_CASTER(headrace::bindings::Spans, const_name("headrace.types.ImageSpans"))

  bool from_python(handle source, std::uint8_t, cleanup_list*) noexcept {
    value.object = borrow(source);
    return true;
  }
};
