#include "core/resample/plane_resampler.hpp"

#include <algorithm>
#include <new>

#include "core/dispatch.hpp"
#include "core/memory.hpp"

namespace headrace {
namespace {

// Values a kernel may read behind a row.
constexpr std::size_t kPlaneReach = 64;

struct PlaneKernels {
  decltype(&kernels::scalar::blend_rows_fixed) blend_rows;
  decltype(&kernels::scalar::plan_plane_columns) plan_columns;
  decltype(&kernels::scalar::reduce_plane_row) reduce_row;
};

#define HEADRACE_PLANE_KERNELS(level)                                     \
  PlaneKernels {                                                          \
    kernels::level::blend_rows_fixed, kernels::level::plan_plane_columns, \
        kernels::level::reduce_plane_row                                  \
  }
constexpr KernelTables<PlaneKernels> kPlaneKernels = HEADRACE_KERNEL_TABLES(HEADRACE_PLANE_KERNELS);
#undef HEADRACE_PLANE_KERNELS

}  // namespace

void PlaneResampler::prepare() {
  fixed_.fill(rows_, columns_, false, kernels::kPlaneGroup);
  grow(work_, used_columns_ + 2 * fixed_.pair_count() + kPlaneReach);
  const std::size_t groups = columns_.starts.size() / kernels::kPlaneGroup + 1;
  grow(table_memory_,
       groups * (sizeof(std::uint32_t) + fixed_.pair_count() * kernels::kPlaneTableBytes) +
           kernels::kColumnTableAlignment + 1);
  const auto address = reinterpret_cast<std::uintptr_t>(table_memory_.data());
  std::uint8_t* table = table_memory_.data() + (-address % kernels::kColumnTableAlignment);
  const kernels::FixedColumns columns = fixed_.columns(nullptr);
  table_ = in_use(kPlaneKernels).plan_columns(&columns, table) ? table : nullptr;
}

Status PlaneResampler::plan(const PlaneRequest& request) noexcept {
  const Region& region = request.region;
  try {
    plan_axis({request.columns, region.left, region.width, 0, request.plane.width,
               request.out.width, request.is_flipped},
              columns_);
    plan_axis({request.rows, region.top, region.height, 0, request.plane.height, request.out.height,
               false},
              rows_);
    if (std::max(columns_.taps, rows_.taps) > kMaxFixedTaps) {
      return Status(Code::unsupported, "too many samples for each output");
    }
    std::size_t end = 0;
    first_column_ = *std::min_element(columns_.starts.begin(), columns_.starts.end());
    for (std::size_t j = 0; j < request.out.width; ++j) {
      end = std::max<std::size_t>(end, columns_.starts[j] + columns_.counts[j]);
      columns_.starts[j] -= static_cast<std::uint32_t>(first_column_);
    }
    used_columns_ = end - first_column_;
    prepare();
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the resampling plan");
  }
  return {};
}

void PlaneResampler::write_row(const std::uint8_t* plane, std::size_t stride, std::size_t y,
                               std::uint8_t* out) noexcept {
  const PlaneKernels& kernels = in_use(kPlaneKernels);
  kernels.blend_rows(plane + rows_.starts[y] * stride + first_column_, stride,
                     fixed_.row_weights(y), rows_.counts[y], used_columns_, work_.data());
  const kernels::FixedColumns columns = fixed_.columns(table_);
  kernels.reduce_row(work_.data(), &columns, out);
}

}  // namespace headrace
