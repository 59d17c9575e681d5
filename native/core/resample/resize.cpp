#include "headrace/resample/resize.hpp"

#include <cstdint>
#include <cstring>
#include <limits>

#include "headrace/resample/opencv_area.hpp"

namespace headrace {
namespace {

Status check_shapes(ByteSpan pixels, ImageShape shape, MutableByteSpan out,
                    ImageShape out_shape) noexcept {
  constexpr std::size_t kMaxSide = std::numeric_limits<std::int32_t>::max();
  if (out_shape.width == 0 || out_shape.height == 0 || out_shape.width > shape.width ||
      out_shape.height > shape.height) {
    return Status(Code::invalid_argument, Detail("cannot resize ")
                                              << shape.width << "x" << shape.height << " to "
                                              << out_shape.width << "x" << out_shape.height
                                              << ": area resampling only shrinks");
  }
  const auto size = rgb_size_bytes(shape);
  if (!size.is_ok()) return size.status();
  if (shape.width > kMaxSide || shape.height > kMaxSide) {
    return Status(Code::too_large, "a side is longer than 2147483647 pixels");
  }
  if (pixels.size() != size.value() || out.size() != rgb_size_bytes(out_shape).value()) {
    return Status(Code::invalid_argument, "the buffers do not have the size of the images");
  }
  if (is_overlapping(pixels, out)) {
    return Status(Code::invalid_argument, "the output overlaps the source image");
  }
  return {};
}

}  // namespace

Status resize_area(ByteSpan pixels, ImageShape shape, MutableByteSpan out,
                   ImageShape out_shape) noexcept {
  if (Status status = check_shapes(pixels, shape, out, out_shape); !status.is_ok()) return status;
  if (shape.width == out_shape.width && shape.height == out_shape.height) {
    std::memcpy(out.data(), pixels.data(), out.size());
    return {};
  }
  OpenCvArea area;
  if (Status status = area.plan(shape, out_shape, false); !status.is_ok()) return status;
  const auto* source = reinterpret_cast<const std::uint8_t*>(pixels.data());
  auto* destination = reinterpret_cast<std::uint8_t*>(out.data());
  for (std::size_t y = 0; y < out_shape.height; ++y) {
    area.write_row(source, shape.width * kRgbChannels, y,
                   destination + y * out_shape.width * kRgbChannels);
  }
  return {};
}

}  // namespace headrace
