#include "headrace/resample/resample.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>

#include "core/dispatch.hpp"
#include "core/memory.hpp"
#include "core/resample/filter_plan.hpp"

namespace headrace {
namespace {

// Values a kernel may read behind a row.
constexpr std::size_t kReach = 64;
// Bytes are not scaled.
constexpr float kNoScaling[kRgbChannels] = {};

struct ResampleKernels {
  decltype(&kernels::scalar::blend_rows) blend_rows;
  decltype(&kernels::scalar::reduce_row) reduce_row;
  decltype(&kernels::scalar::blend_rows_fixed) blend_rows_fixed;
  decltype(&kernels::scalar::plan_columns_fixed) plan_columns_fixed;
  decltype(&kernels::scalar::plan_sixteens) plan_sixteens;
  decltype(&kernels::scalar::reduce_sixteens) reduce_sixteens;
  decltype(&kernels::scalar::reduce_row_fixed) reduce_row_fixed;
  decltype(&kernels::scalar::reduce_row_sharp) reduce_row_sharp;
  decltype(&kernels::scalar::blend_rows_sharp) blend_rows_sharp;
};

#define HEADRACE_RESAMPLE_KERNELS(level)                                                      \
  ResampleKernels {                                                                           \
    kernels::level::blend_rows, kernels::level::reduce_row, kernels::level::blend_rows_fixed, \
        kernels::level::plan_columns_fixed, kernels::level::plan_sixteens,                    \
        kernels::level::reduce_sixteens, kernels::level::reduce_row_fixed,                    \
        kernels::level::reduce_row_sharp, kernels::level::blend_rows_sharp                    \
  }
constexpr KernelTables<ResampleKernels> kResampleKernels =
    HEADRACE_KERNEL_TABLES(HEADRACE_RESAMPLE_KERNELS);
#undef HEADRACE_RESAMPLE_KERNELS

const ResampleKernels& resample_kernels() noexcept { return in_use(kResampleKernels); }

Status check_plan(ImageShape view, const Region& region, ImageShape out) noexcept {
  constexpr std::size_t kMaxSide = std::numeric_limits<std::int32_t>::max();
  if (view.width == 0 || view.height == 0 || out.width == 0 || out.height == 0) {
    return Status(Code::invalid_argument, "cannot resample to or from an empty image");
  }
  if (std::max({view.width, view.height, out.width, out.height}) > kMaxSide) {
    return Status(Code::too_large, "a side is longer than 2147483647 pixels");
  }
  // Written so that NaN fails too.
  const bool is_inside_view = region.left >= 0 && region.top >= 0 && region.width > 0 &&
                              region.height > 0 &&
                              region.left + region.width <= static_cast<double>(view.width) &&
                              region.top + region.height <= static_cast<double>(view.height);
  if (!is_inside_view) {
    return Status(Code::out_of_bounds, "the region to resample is not inside the image");
  }
  return {};
}

const std::uint8_t* first_pixel(const PixelView& view, std::size_t column) noexcept {
  return reinterpret_cast<const std::uint8_t*>(view.pixels) + column * kRgbChannels;
}

}  // namespace

std::size_t support_of(ResampleFilter filter) noexcept {
  switch (filter) {
    case ResampleFilter::area:
    case ResampleFilter::nearest:
    case ResampleFilter::opencv_area:
      return 0;
    case ResampleFilter::bilinear:
      return 1;
    case ResampleFilter::bicubic:
      return 2;
    case ResampleFilter::lanczos:
      break;
  }
  return 3;
}

kernels::FixedColumns Resampler::fixed_columns() const noexcept { return fixed_.columns(table_); }

void Resampler::quantize_weights() {
  fixed_.fill(rows_, columns_, is_sharp_, 4);
  const std::size_t pair_count = fixed_.pair_count();
  const std::size_t groups = (out_shape_.width + kernels::kColumnGroup - 1) / kernels::kColumnGroup;
  grow(table_memory_, groups * (sizeof(std::uint32_t) + pair_count * kernels::kColumnTableBytes) +
                          kernels::kColumnTableAlignment + 1);
  const auto address = reinterpret_cast<std::uintptr_t>(table_memory_.data());
  std::uint8_t* table =
      table_memory_.data() + (round_up(address, kernels::kColumnTableAlignment) - address);
  table_ = nullptr;
  const kernels::FixedColumns columns = fixed_columns();
  const ResampleKernels& kernels = resample_kernels();
  has_sixteens_ = !is_sharp_ && kernels.plan_sixteens(&columns, table);
  table_ = has_sixteens_ || kernels.plan_columns_fixed(&columns, table) ? table : nullptr;
}

void Resampler::prepare_work() {
  if (is_nearest_) return;
  const std::size_t row_size = used_columns_ * kRgbChannels;
  const std::size_t out_size = out_shape_.width * kRgbChannels;
  if (is_fixed_) {
    quantize_weights();
    grow(fixed_work_, row_size + 2 * fixed_.pair_count() * kRgbChannels + kReach);
    if (is_sharp_) fixed_rows_.reset(out_size, rows_.taps);
    return;
  }
  grow(float_work_, std::max(row_size, out_size) + (columns_.stride + 1) * kRgbChannels + 1);
  if (!is_sharp_) return;
  byte_rows_.reset(out_size, rows_.taps);
  same_weights_.assign(out_shape_.width, 1.0F);
  same_starts_.resize(out_shape_.width);
  std::iota(same_starts_.begin(), same_starts_.end(), 0U);
}

Status Resampler::plan_opencv(const Region& region, ImageShape out_shape,
                              bool is_flipped) noexcept {
  first_column_ = static_cast<std::size_t>(region.left);
  first_row_ = static_cast<std::size_t>(region.top);
  const ImageShape shape{static_cast<std::size_t>(region.width),
                         static_cast<std::size_t>(region.height)};
  if (static_cast<double>(first_column_) != region.left ||
      static_cast<double>(first_row_) != region.top ||
      static_cast<double>(shape.width) != region.width ||
      static_cast<double>(shape.height) != region.height) {
    return Status(Code::invalid_argument, "OpenCV's area filter takes regions of whole pixels");
  }
  return opencv_.plan(shape, out_shape, is_flipped);
}

Status Resampler::plan(ImageShape view_shape, const Region& region, ResampleFilter filter,
                       ImageShape out_shape, bool is_flipped) noexcept {
  if (Status status = check_plan(view_shape, region, out_shape); !status.is_ok()) return status;
  const bool is_growing = region.width < static_cast<double>(out_shape.width) ||
                          region.height < static_cast<double>(out_shape.height);
  const AxisKind kind = axis_kind_of(filter, is_growing);
  out_shape_ = out_shape;
  is_sharp_ = is_sharp(kind);
  is_nearest_ = kind == AxisKind::nearest;
  has_sixteens_ = false;
  is_opencv_ = filter == ResampleFilter::opencv_area;
  if (is_opencv_) return plan_opencv(region, out_shape, is_flipped);
  try {
    plan_axis({kind, region.left, region.width, region.view_left, view_shape.width, out_shape.width,
               is_flipped},
              columns_);
    plan_axis({kind, region.top, region.height, region.view_top, view_shape.height,
               out_shape.height, false},
              rows_);
    std::size_t end = 0;
    first_column_ = *std::min_element(columns_.starts.begin(), columns_.starts.end());
    for (std::size_t j = 0; j < out_shape.width; ++j) {
      end = std::max<std::size_t>(end, columns_.starts[j] + columns_.counts[j]);
      columns_.starts[j] -= static_cast<std::uint32_t>(first_column_);
    }
    used_columns_ = end - first_column_;
    is_fixed_ = std::max(columns_.taps, rows_.taps) <= kMaxFixedTaps;
    prepare_work();
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the resampling plan");
  }
  return {};
}

void Resampler::blend_row(const std::uint8_t* source, std::size_t stride, std::size_t y) noexcept {
  resample_kernels().blend_rows_fixed(source + rows_.starts[y] * stride, stride,
                                      fixed_.row_weights(y), rows_.counts[y],
                                      used_columns_ * kRgbChannels, fixed_work_.data());
}

void Resampler::write_smooth_row(const std::uint8_t* source, std::size_t stride, std::size_t y,
                                 std::uint8_t* out) noexcept {
  const ResampleKernels& kernels = resample_kernels();
  if (!is_fixed_) {
    kernels.blend_rows(source + rows_.starts[y] * stride, stride,
                       rows_.weights.data() + y * rows_.stride, rows_.counts[y],
                       used_columns_ * kRgbChannels, float_work_.data());
    kernels.reduce_row(float_work_.data(), columns_.starts.data(), columns_.weights.data(),
                       columns_.stride, out_shape_.width, 1.0F, 0.0F, out);
    return;
  }
  blend_row(source, stride, y);
  const kernels::FixedColumns columns = fixed_columns();
  if (has_sixteens_) {
    const kernels::ValueRow bytes{{out, nullptr, nullptr}, 1, true, kNoScaling, kNoScaling};
    return kernels.reduce_sixteens(fixed_work_.data(), &columns, &bytes);
  }
  kernels.reduce_row_fixed(fixed_work_.data(), &columns, out);
}

// Columns first, and each source row once: Pillow cuts what goes beyond black and white off between
// its passes, which makes their order show.
void Resampler::write_sharp_row(const std::uint8_t* source, std::size_t stride, std::size_t y,
                                std::uint8_t* out) noexcept {
  const ResampleKernels& kernels = resample_kernels();
  const kernels::FixedColumns columns = fixed_columns();
  const auto reduce = [&](std::size_t row, std::int16_t* to) noexcept {
    constexpr std::int16_t kWholeLevels = kFixedWeightOne >> 7;
    kernels.blend_rows_fixed(source + row * stride, stride, &kWholeLevels, 1,
                             used_columns_ * kRgbChannels, fixed_work_.data());
    kernels.reduce_row_sharp(fixed_work_.data(), &columns, to);
  };
  const std::size_t size = out_shape_.width * kRgbChannels;
  const std::int16_t* rows = fixed_rows_.rows(rows_.starts[y], rows_.counts[y], reduce);
  kernels.blend_rows_sharp(rows, size, fixed_.row_weights(y), rows_.counts[y], size, out);
}

void Resampler::write_sharp_row_of_many(const std::uint8_t* source, std::size_t stride,
                                        std::size_t y, std::uint8_t* out) noexcept {
  const ResampleKernels& kernels = resample_kernels();
  const auto reduce = [&](std::size_t row, std::uint8_t* to) noexcept {
    constexpr float kOne = 1;
    kernels.blend_rows(source + row * stride, stride, &kOne, 1, used_columns_ * kRgbChannels,
                       float_work_.data());
    kernels.reduce_row(float_work_.data(), columns_.starts.data(), columns_.weights.data(),
                       columns_.stride, out_shape_.width, 1.0F, 0.0F, to);
  };
  const std::size_t size = out_shape_.width * kRgbChannels;
  const std::uint8_t* rows = byte_rows_.rows(rows_.starts[y], rows_.counts[y], reduce);
  kernels.blend_rows(rows, size, rows_.weights.data() + y * rows_.stride, rows_.counts[y], size,
                     float_work_.data());
  kernels.reduce_row(float_work_.data(), same_starts_.data(), same_weights_.data(), 1,
                     out_shape_.width, 1.0F, 0.0F, out);
}

void Resampler::write_nearest_row(const std::uint8_t* source, std::size_t stride, std::size_t y,
                                  std::uint8_t* out) const noexcept {
  const std::uint8_t* row = source + rows_.starts[y] * stride;
  for (const std::uint32_t start : columns_.starts) {
    std::memcpy(out, row + std::size_t{start} * kRgbChannels, kRgbChannels);
    out += kRgbChannels;
  }
}

void Resampler::write_row(const PixelView& view, std::size_t y, std::uint8_t* out) noexcept {
  const std::uint8_t* source = first_pixel(view, first_column_);
  if (is_opencv_) {
    return opencv_.write_row(source + first_row_ * view.row_stride, view.row_stride, y, out);
  }
  if (is_nearest_) return write_nearest_row(source, view.row_stride, y, out);
  if (!is_sharp_) return write_smooth_row(source, view.row_stride, y, out);
  if (is_fixed_) return write_sharp_row(source, view.row_stride, y, out);
  write_sharp_row_of_many(source, view.row_stride, y, out);
}

void Resampler::write_values(const PixelView& view, std::size_t y,
                             const kernels::ValueRow& out) noexcept {
  blend_row(first_pixel(view, first_column_), view.row_stride, y);
  const kernels::FixedColumns columns = fixed_columns();
  resample_kernels().reduce_sixteens(fixed_work_.data(), &columns, &out);
}

}  // namespace headrace
