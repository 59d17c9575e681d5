#include "core/resample/late_colour.hpp"

#include <new>

#include "core/jpeg/kernels.hpp"

namespace headrace {
namespace {

// Of the kernels that convert colours: so much they read and write too many.
constexpr std::size_t kSampleSlack = 64;
constexpr std::size_t kPixelSlack = 192;
// Beyond this an output has more samples than whole numbers are good for.
constexpr std::size_t kMostReduced = 8;

AxisKind kind_of(ResampleFilter filter, bool is_shrinking) noexcept {
  if (filter == ResampleFilter::bilinear) return AxisKind::triangle;
  return is_shrinking ? AxisKind::area : AxisKind::area_linear;
}

PlaneRequest request_of(const SampleView& view, const Window& crop, std::size_t h, std::size_t v,
                        ImageShape out, bool is_flipped) noexcept {
  const double x = 1.0 / static_cast<double>(h);
  const double y = 1.0 / static_cast<double>(v);
  PlaneRequest request;
  request.plane = view.shape;
  request.region = {static_cast<double>(crop.left) * x - static_cast<double>(view.left),
                    static_cast<double>(crop.top) * y - static_cast<double>(view.top),
                    static_cast<double>(crop.width) * x, static_cast<double>(crop.height) * y};
  request.out = out;
  request.is_flipped = is_flipped;
  return request;
}

}  // namespace

bool LateColour::is_possible(ResampleFilter filter, const Window& crop, ImageShape out) noexcept {
  return (filter == ResampleFilter::area || filter == ResampleFilter::bilinear) &&
         crop.width <= kMostReduced * out.width && crop.height <= kMostReduced * out.height;
}

Status LateColour::plan(const DecodedSamples& samples, const Window& crop, ResampleFilter filter,
                        ImageShape out, bool is_flipped) noexcept {
  samples_ = samples;
  width_ = out.width;
  const AxisKind kind = kind_of(filter, crop.width >= out.width && crop.height >= out.height);
  PlaneRequest request = request_of(samples.components[0], crop, 1, 1, out, is_flipped);
  request.columns = request.rows = kind;
  if (Status status = first_.plan(request); !status.is_ok()) return status;
  if (samples.h * samples.v > 1) {
    request = request_of(samples.components[1], crop, samples.h, samples.v, out, is_flipped);
    // Halved samples lie between those of the picture, and are mixed as they would be when
    // upsampled.
    request.columns = samples.h == 1 ? kind : AxisKind::triangle;
    request.rows = samples.v == 1 ? kind : AxisKind::triangle;
    if (Status status = others_.plan(request); !status.is_ok()) return status;
  }
  try {
    for (auto& row : rows_) row.resize(out.width + kSampleSlack);
    pixels_.resize(out.width * kRgbChannels + kPixelSlack);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for a row of pixels");
  }
  return {};
}

const std::uint8_t* LateColour::row(std::size_t y) noexcept {
  const std::uint8_t* rows[kRgbChannels];
  for (std::size_t c = 0; c < kRgbChannels; ++c) {
    rows[c] = rows_[c < samples_.count ? c : 0].data();
    if (c >= samples_.count) continue;
    const SampleView& view = samples_.components[c];
    PlaneResampler& resampler = c == 0 || samples_.h * samples_.v == 1 ? first_ : others_;
    resampler.write_row(view.samples, view.stride, y, rows_[c].data());
  }
  const JpegKernels& kernels = jpeg_kernels();
  (samples_.is_ycc ? kernels.ycc_to_rgb : kernels.planes_to_rgb)(rows, width_, pixels_.data());
  return pixels_.data();
}

}  // namespace headrace
