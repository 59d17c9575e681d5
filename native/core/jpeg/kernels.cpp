#include "core/jpeg/kernels.hpp"

#include "core/dispatch.hpp"

namespace headrace {
namespace {

#define HEADRACE_JPEG_KERNELS(level)                                                              \
  JpegKernels {                                                                                   \
    kernels::level::start_jpeg_rows, kernels::level::read_jpeg_mcus,                              \
        kernels::level::jpeg_position, kernels::level::transform_jpeg_mcus,                       \
        kernels::level::transform_jpeg_mcus_fast, kernels::level::upsample_h2v1,                  \
        kernels::level::upsample_h2v2, kernels::level::upsample_h1v2, kernels::level::ycc_to_rgb, \
        kernels::level::planes_to_rgb                                                             \
  }
constexpr KernelTables<JpegKernels> kTables = HEADRACE_KERNEL_TABLES(HEADRACE_JPEG_KERNELS);
#undef HEADRACE_JPEG_KERNELS

}  // namespace

const JpegKernels& jpeg_kernels() noexcept { return in_use(kTables); }

}  // namespace headrace
