#include "core/jpeg_kernels.hpp"

#include "core/dispatch.hpp"

namespace penstock {
namespace {

// The entropy decoder has nothing to gain from longer vectors.
namespace lanes {
namespace scalar = kernels::scalar;
#ifdef PENSTOCK_X86_KERNELS
namespace avx2 = kernels::avx2;
namespace avx512 = kernels::avx2;
#endif
}  // namespace lanes

#define PENSTOCK_JPEG_KERNELS(level)                                                             \
  JpegKernels {                                                                                  \
    lanes::level::start_jpeg_rows, lanes::level::read_jpeg_mcus, lanes::level::jpeg_position,    \
        kernels::level::transform_jpeg_mcus, kernels::level::transform_jpeg_mcus_fast,           \
        kernels::level::upsample_h2v1, kernels::level::upsample_h2v2,                            \
        kernels::level::upsample_h1v2, kernels::level::ycc_to_rgb, kernels::level::planes_to_rgb \
  }
constexpr KernelTables<JpegKernels> kTables = PENSTOCK_KERNEL_TABLES(PENSTOCK_JPEG_KERNELS);
#undef PENSTOCK_JPEG_KERNELS

}  // namespace

const JpegKernels& jpeg_kernels() noexcept { return in_use(kTables); }

}  // namespace penstock
