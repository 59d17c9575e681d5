#include "penstock/resample.hpp"

#include <algorithm>
#include <cstring>
#include <limits>
#include <new>
#include <numeric>

#include "core/resample_plan.hpp"
#include "kernels/kernels.hpp"
#include "penstock/cpu.hpp"

namespace penstock {
namespace {

// Above this, weights of 14 bits would be too coarse.
constexpr std::size_t kMaxFixedTaps = 32;
constexpr int kWeightOne = 1 << 14;
// Values a kernel may read behind a row.
constexpr std::size_t kReach = 64;
// Bytes are not scaled.
constexpr float kNoScaling[kRgbChannels] = {};

struct Kernels {
  decltype(&kernels::scalar::blend_rows) blend_rows = kernels::scalar::blend_rows;
  decltype(&kernels::scalar::reduce_row) reduce_row = kernels::scalar::reduce_row;
  decltype(&kernels::scalar::blend_rows_fixed) blend_rows_fixed = kernels::scalar::blend_rows_fixed;
  decltype(&kernels::scalar::plan_columns_fixed) plan_columns_fixed =
      kernels::scalar::plan_columns_fixed;
  decltype(&kernels::scalar::plan_sixteens) plan_sixteens = kernels::scalar::plan_sixteens;
  decltype(&kernels::scalar::reduce_sixteens) reduce_sixteens = kernels::scalar::reduce_sixteens;
  decltype(&kernels::scalar::reduce_row_fixed) reduce_row_fixed = kernels::scalar::reduce_row_fixed;
  decltype(&kernels::scalar::reduce_row_sharp) reduce_row_sharp = kernels::scalar::reduce_row_sharp;
  decltype(&kernels::scalar::blend_rows_sharp) blend_rows_sharp = kernels::scalar::blend_rows_sharp;
};

#ifdef PENSTOCK_X86_KERNELS
#define PENSTOCK_RESAMPLE_KERNELS(level)                                 \
  {kernels::level::blend_rows,       kernels::level::reduce_row,         \
   kernels::level::blend_rows_fixed, kernels::level::plan_columns_fixed, \
   kernels::level::plan_sixteens,    kernels::level::reduce_sixteens,    \
   kernels::level::reduce_row_fixed, kernels::level::reduce_row_sharp,   \
   kernels::level::blend_rows_sharp}
constexpr Kernels kAvx2Kernels = PENSTOCK_RESAMPLE_KERNELS(avx2);
constexpr Kernels kAvx512Kernels = PENSTOCK_RESAMPLE_KERNELS(avx512);
#undef PENSTOCK_RESAMPLE_KERNELS
#endif
constexpr Kernels kScalarKernels;

const Kernels& resample_kernels() noexcept {
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

// std::floor is a call where the compiler may not count on SSE4.
int round_down(float value) noexcept {
  const int cut = static_cast<int>(value);
  return cut - (value < static_cast<float>(cut) ? 1 : 0);
}

// Weights in 16384ths that sum to one: each is the step of the rounded running sum, so that errors
// do not add up. Where no weight is negative, none becomes so by rounding.
void quantize(const float* weights, std::size_t count, bool is_signed, std::int16_t* out) noexcept {
  float sum = 0;
  int before = 0;
  for (std::size_t k = 0; k + 1 < count; ++k) {
    sum += weights[k];
    int now = round_down(sum * kWeightOne + 0.5F);
    if (!is_signed) now = std::clamp(now, before, kWeightOne);
    out[k] = static_cast<std::int16_t>(now - before);
    before = now;
  }
  out[count - 1] = static_cast<std::int16_t>(kWeightOne - before);
}

std::size_t round_up(std::size_t value, std::size_t multiple) noexcept {
  return (value + multiple - 1) / multiple * multiple;
}

template <typename T>
void grow(std::vector<T>& memory, std::size_t size) {
  if (memory.size() < size) memory.resize(size);
}

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

AxisKind choose_kind(const Region& region, ResampleFilter filter, ImageShape out) noexcept {
  switch (filter) {
    case ResampleFilter::bilinear:
      return AxisKind::triangle;
    case ResampleFilter::bicubic:
      return AxisKind::cubic;
    case ResampleFilter::lanczos:
      return AxisKind::lanczos;
    case ResampleFilter::nearest:
      return AxisKind::nearest;
    case ResampleFilter::opencv_area:
    case ResampleFilter::area:
      break;
  }
  const bool is_shrinking = region.width >= static_cast<double>(out.width) &&
                            region.height >= static_cast<double>(out.height);
  return is_shrinking ? AxisKind::area : AxisKind::area_linear;
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

void Resampler::quantize_rows() {
  row_weights_.resize(out_shape_.height * rows_.taps);
  for (std::size_t y = 0; y < out_shape_.height; ++y) {
    quantize(rows_.weights.data() + y * rows_.stride, rows_.counts[y], is_sharp_,
             row_weights_.data() + y * rows_.taps);
  }
}

void Resampler::quantize_columns() {
  const std::size_t padded = round_up(out_shape_.width, 4);
  const std::size_t pair_count = (columns_.taps + 1) / 2;
  starts_.assign(padded, 0);
  std::copy(columns_.starts.begin(), columns_.starts.end(), starts_.begin());
  pairs_.assign(padded * pair_count, 0);
  for (std::size_t j = 0; j < out_shape_.width; ++j) {
    std::int16_t weights[kMaxFixedTaps + 1] = {};
    quantize(columns_.weights.data() + j * columns_.stride, columns_.counts[j], is_sharp_, weights);
    for (std::size_t p = 0; p < pair_count; ++p) {
      pairs_[p * padded + j] =
          static_cast<std::uint32_t>(static_cast<std::uint16_t>(weights[2 * p])) |
          static_cast<std::uint32_t>(static_cast<std::uint16_t>(weights[2 * p + 1])) << 16;
    }
  }
}

kernels::FixedColumns Resampler::fixed_columns() const noexcept {
  return {starts_.data(),   pairs_.data(),  (columns_.taps + 1) / 2,
          out_shape_.width, starts_.size(), table_};
}

void Resampler::quantize_weights() {
  quantize_rows();
  quantize_columns();
  const std::size_t pair_count = (columns_.taps + 1) / 2;
  const std::size_t groups = (out_shape_.width + kernels::kColumnGroup - 1) / kernels::kColumnGroup;
  grow(table_memory_, groups * (sizeof(std::uint32_t) + pair_count * kernels::kColumnTableBytes) +
                          kernels::kColumnTableAlignment + 1);
  const auto address = reinterpret_cast<std::uintptr_t>(table_memory_.data());
  std::uint8_t* table =
      table_memory_.data() + (round_up(address, kernels::kColumnTableAlignment) - address);
  table_ = nullptr;
  const kernels::FixedColumns columns = fixed_columns();
  const Kernels& kernels = resample_kernels();
  has_sixteens_ = !is_sharp_ && kernels.plan_sixteens(&columns, table);
  table_ = has_sixteens_ || kernels.plan_columns_fixed(&columns, table) ? table : nullptr;
}

void Resampler::prepare_work() {
  if (is_nearest_) return;
  const std::size_t row_size = used_columns_ * kRgbChannels;
  const std::size_t out_size = out_shape_.width * kRgbChannels;
  if (is_fixed_) {
    quantize_weights();
    grow(fixed_work_, row_size + 2 * ((columns_.taps + 1) / 2) * kRgbChannels + kReach);
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
  const AxisKind kind = choose_kind(region, filter, out_shape);
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
                                      row_weights_.data() + y * rows_.taps, rows_.counts[y],
                                      used_columns_ * kRgbChannels, fixed_work_.data());
}

void Resampler::write_smooth_row(const std::uint8_t* source, std::size_t stride, std::size_t y,
                                 std::uint8_t* out) noexcept {
  const Kernels& kernels = resample_kernels();
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
  const Kernels& kernels = resample_kernels();
  const kernels::FixedColumns columns = fixed_columns();
  const auto reduce = [&](std::size_t row, std::int16_t* to) noexcept {
    constexpr std::int16_t kWholeLevels = kWeightOne >> 7;
    kernels.blend_rows_fixed(source + row * stride, stride, &kWholeLevels, 1,
                             used_columns_ * kRgbChannels, fixed_work_.data());
    kernels.reduce_row_sharp(fixed_work_.data(), &columns, to);
  };
  const std::size_t size = out_shape_.width * kRgbChannels;
  const std::int16_t* rows = fixed_rows_.rows(rows_.starts[y], rows_.counts[y], reduce);
  kernels.blend_rows_sharp(rows, size, row_weights_.data() + y * rows_.taps, rows_.counts[y], size,
                           out);
}

void Resampler::write_sharp_row_of_many(const std::uint8_t* source, std::size_t stride,
                                        std::size_t y, std::uint8_t* out) noexcept {
  const Kernels& kernels = resample_kernels();
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

}  // namespace penstock
