// The kernels of our JPEG decoder, for the instruction set in use.
#pragma once

#include "kernels/kernels.hpp"

namespace headrace {

struct JpegKernels {
  decltype(&kernels::scalar::start_jpeg_rows) start_rows;
  decltype(&kernels::scalar::read_jpeg_mcus) read_mcus;
  decltype(&kernels::scalar::jpeg_position) position;
  decltype(&kernels::scalar::transform_jpeg_mcus) transform_mcus;
  decltype(&kernels::scalar::transform_jpeg_mcus_fast) transform_mcus_fast;
  decltype(&kernels::scalar::upsample_h2v1) upsample_h2v1;
  decltype(&kernels::scalar::upsample_h2v2) upsample_h2v2;
  decltype(&kernels::scalar::upsample_h1v2) upsample_h1v2;
  decltype(&kernels::scalar::ycc_to_rgb) ycc_to_rgb;
  decltype(&kernels::scalar::planes_to_rgb) planes_to_rgb;
};

[[nodiscard]] const JpegKernels& jpeg_kernels() noexcept;

}  // namespace headrace
