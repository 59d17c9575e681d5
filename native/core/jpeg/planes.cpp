#include "core/jpeg/planes.hpp"

#include <algorithm>

#include "core/jpeg/kernels.hpp"
#include "core/memory.hpp"

namespace headrace {
namespace {

// Kernels read and write whole vectors, up to 64 samples and 192 bytes of pixels too many.
constexpr std::size_t kSlack = 64;
constexpr std::size_t kPixelSlack = 192;

}  // namespace

std::uint8_t* JpegPlanes::Plane::at(std::size_t x, std::size_t y) noexcept {
  return memory.data() + kSlack + (y - top) * stride + (x - left);
}

void JpegPlanes::reset(const BaselineJpeg& jpeg, const McuRange& mcus) {
  mcus_ = mcus;
  const std::size_t columns =
      divide_up(mcus.right - mcus.left, kernels::kGroupBlocks) * kernels::kGroupBlocks * kBlockSide;
  for (std::size_t c = 0; c < jpeg.components; ++c) {
    const std::size_t h = c == 0 ? jpeg.h : 1;
    Plane& plane = planes_[c];
    plane.mcu_rows = kBlockSide * (c == 0 ? jpeg.v : 1);
    plane.stride = columns * h + kSlack;
    plane.left = mcus.left * kBlockSide * h;
    plane.top = mcus.top * plane.mcu_rows;
    plane.rows = (mcus.bottom - mcus.top) * plane.mcu_rows;
    grow(plane.memory, plane.rows * plane.stride + 3 * kSlack);
  }
  for (auto& row : chroma_) grow(row, columns * jpeg.h + 3 * kSlack);
}

std::uint8_t* JpegPlanes::row_of_mcus(std::size_t component, std::size_t row) noexcept {
  Plane& plane = planes_[component];
  return plane.at(plane.left, row * plane.mcu_rows);
}

SampleView JpegPlanes::view(const BaselineJpeg& jpeg, std::size_t component) noexcept {
  Plane& plane = planes_[component];
  const std::size_t h = component == 0 ? jpeg.h : 1;
  const std::size_t v = component == 0 ? jpeg.v : 1;
  const std::size_t right =
      std::min(divide_up(jpeg.shape.width * h, jpeg.h), mcus_.right * kBlockSide * h);
  const std::size_t bottom =
      std::min(divide_up(jpeg.shape.height * v, jpeg.v), plane.top + plane.rows);
  return {plane.at(plane.left, plane.top),
          plane.stride,
          plane.left,
          plane.top,
          {right - plane.left, bottom - plane.top}};
}

std::size_t JpegPlanes::size_of(const Window& window) noexcept {
  return window.width * window.height * kRgbChannels + kPixelSlack;
}

// Beyond the image's edges, upsampling finds the samples at the edges.
void JpegPlanes::repeat_edges(const BaselineJpeg& jpeg) noexcept {
  const std::size_t width = divide_up(jpeg.shape.width, jpeg.h);
  for (std::size_t c = 1; c < jpeg.components; ++c) {
    Plane& plane = planes_[c];
    for (std::size_t y = plane.top; y < plane.top + plane.rows; ++y) {
      std::uint8_t* first = plane.at(plane.left, y);
      if (mcus_.left == 0) first[-1] = first[0];
      if (mcus_.right == jpeg.mcu_columns) *plane.at(width, y) = *plane.at(width - 1, y);
    }
  }
}

const std::uint8_t* JpegPlanes::upsampled(const BaselineJpeg& jpeg, const Window& window,
                                          std::size_t c, std::size_t y) noexcept {
  Plane& plane = planes_[c];
  if (c == 0 || (jpeg.h == 1 && jpeg.v == 1)) return plane.at(window.left, y);
  const JpegKernels& kernels = jpeg_kernels();
  std::uint8_t* out = chroma_[c - 1].data();
  const std::size_t first = window.left / jpeg.h;
  const std::size_t size = (window.left + window.width - 1) / jpeg.h - first + 1;
  if (jpeg.v == 1) {
    kernels.upsample_h2v1(plane.at(first, y), size, out);
    return out + window.left % 2;
  }
  const std::size_t last_row = divide_up(jpeg.shape.height, 2) - 1;
  const std::size_t row = y / 2;
  const std::size_t beside =
      y % 2 == 0 ? row - std::min<std::size_t>(row, 1) : std::min(row + 1, last_row);
  const kernels::JpegSamples samples{plane.at(first, row), plane.at(first, beside)};
  if (jpeg.h == 1) {
    kernels.upsample_h1v2(&samples, size, y % 2 == 0 ? 1 : 2, out);
    return out;
  }
  kernels.upsample_h2v2(&samples, size, out);
  return out + window.left % 2;
}

void JpegPlanes::write_pixels(const BaselineJpeg& jpeg, const Window& window,
                              std::uint8_t* out) noexcept {
  if (jpeg.h * jpeg.v != 1) repeat_edges(jpeg);
  const JpegKernels& kernels = jpeg_kernels();
  const bool is_ycc = jpeg.color_space == JpegColorSpace::ycbcr;
  for (std::size_t y = window.top; y < window.top + window.height; ++y) {
    std::array<const std::uint8_t*, kMaxBaselineComponents> rows{};
    for (std::size_t c = 0; c < rows.size(); ++c) {
      rows[c] = c < jpeg.components ? upsampled(jpeg, window, c, y) : rows[0];
    }
    (is_ycc ? kernels.ycc_to_rgb : kernels.planes_to_rgb)(rows.data(), window.width, out);
    out += window.width * kRgbChannels;
  }
}

}  // namespace headrace
