#include "core/jpeg_kernels.hpp"

#include "penstock/cpu.hpp"

namespace penstock {
namespace {

#define PENSTOCK_JPEG_KERNELS(level)                                                               \
  {kernels::level::decode_jpeg_rows, kernels::level::upsample_h2v1, kernels::level::upsample_h2v2, \
   kernels::level::upsample_h1v2,    kernels::level::ycc_to_rgb,    kernels::level::planes_to_rgb}
constexpr JpegKernels kScalarKernels = PENSTOCK_JPEG_KERNELS(scalar);
#ifdef PENSTOCK_X86_KERNELS
constexpr JpegKernels kAvx2Kernels = PENSTOCK_JPEG_KERNELS(avx2);
constexpr JpegKernels kAvx512Kernels = PENSTOCK_JPEG_KERNELS(avx512);
#endif
#undef PENSTOCK_JPEG_KERNELS

}  // namespace

const JpegKernels& jpeg_kernels() noexcept {
#ifdef PENSTOCK_X86_KERNELS
  switch (simd_level()) {
    case SimdLevel::avx512:
      return kAvx512Kernels;
    case SimdLevel::avx2:
      return kAvx2Kernels;
    case SimdLevel::sse42:
    case SimdLevel::scalar:
      break;
  }
#endif
  return kScalarKernels;
}

}  // namespace penstock
