// The kernels of our JPEG decoder, for the instruction set in use.
#pragma once

#include "kernels/kernels.hpp"

namespace penstock {

struct JpegKernels {
  decltype(&kernels::scalar::decode_jpeg_rows) decode_rows;
  decltype(&kernels::scalar::upsample_h2v1) upsample_h2v1;
  decltype(&kernels::scalar::upsample_h2v2) upsample_h2v2;
  decltype(&kernels::scalar::upsample_h1v2) upsample_h1v2;
  decltype(&kernels::scalar::ycc_to_rgb) ycc_to_rgb;
  decltype(&kernels::scalar::planes_to_rgb) planes_to_rgb;
};

[[nodiscard]] const JpegKernels& jpeg_kernels() noexcept;

}  // namespace penstock
