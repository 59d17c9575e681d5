#include "headrace/resample/opencv_area.hpp"

#include <algorithm>
#include <cmath>
#include <new>

#include "core/resample/opencv_taps.hpp"
#include "headrace/cpu.hpp"
#include "kernels/kernels.hpp"

namespace headrace {

struct OpenCvArea::Kernels {
  decltype(&kernels::scalar::plan_average_rows) plan_average_rows;
  decltype(&kernels::scalar::average_rows) average_rows;
  decltype(&kernels::scalar::add_average) add_average;
  decltype(&kernels::scalar::blend_averages) blend_averages;
  decltype(&kernels::scalar::plan_interpolate_row) plan_interpolate_row;
  decltype(&kernels::scalar::interpolate_row) interpolate_row;
  decltype(&kernels::scalar::blend_two_rows) blend_two_rows;
};

namespace {

// Source rows that are kept until an output row is complete; it may need more.
constexpr std::size_t kMostKept = 32;
// Sums of so many bytes are exact in single precision.
constexpr std::size_t kMostExact = (1 << 24) / 255;
// Values that kernels read and write behind a row, at most.
constexpr std::size_t kBlock = 64;

void resize(AxisPlan& plan, std::size_t size, std::size_t taps) {
  plan.taps = 0;
  plan.stride = taps;
  plan.starts.resize(size);
  plan.counts.resize(size);
  plan.weights.assign(size * taps, 0.0F);
}

void plan_cells(std::size_t from, std::size_t to, bool is_mirrored, AxisPlan& plan) {
  const OpenCvScale scale(from, to);
  resize(plan, to, scale.most_taps());
  for (std::size_t i = 0; i < to; ++i) {
    const std::size_t at = is_mirrored ? to - 1 - i : i;
    const Taps taps = opencv_cell(i, scale, from, plan.weights.data() + at * plan.stride);
    plan.starts[at] = static_cast<std::uint32_t>(taps.start);
    plan.counts[at] = static_cast<std::uint32_t>(taps.count);
    plan.taps = std::max(plan.taps, taps.count);
  }
}

void plan_boxes(std::size_t factor, std::size_t to, bool is_mirrored, AxisPlan& plan) {
  resize(plan, to, factor);
  plan.taps = factor;
  std::fill(plan.weights.begin(), plan.weights.end(), 1.0F);
  for (std::size_t i = 0; i < to; ++i) {
    plan.starts[is_mirrored ? to - 1 - i : i] = static_cast<std::uint32_t>(i * factor);
    plan.counts[i] = static_cast<std::uint32_t>(factor);
  }
}

void plan_neighbours(std::size_t from, std::size_t to, bool is_row, bool is_mirrored,
                     AxisPlan& plan, std::vector<std::uint32_t>& pairs) {
  const OpenCvScale scale(from, to);
  resize(plan, to, 0);
  plan.taps = 2;
  pairs.resize(to);
  for (std::size_t i = 0; i < to; ++i) {
    const OpenCvNeighbours two = opencv_neighbours(i, scale, from, is_row);
    const std::size_t at = is_mirrored ? to - 1 - i : i;
    plan.starts[at] = static_cast<std::uint32_t>(two.start);
    plan.counts[at] = static_cast<std::uint32_t>(two.count);
    pairs[at] = two.weights[0] | two.weights[1] << 16;
  }
}

}  // namespace

const OpenCvArea::Kernels& OpenCvArea::kernels_for_this_cpu() noexcept {
#define HEADRACE_OPENCV_AREA_KERNELS(level)                                                       \
  {                                                                                               \
    kernels::level::plan_average_rows, kernels::level::average_rows, kernels::level::add_average, \
        kernels::level::blend_averages, kernels::level::plan_interpolate_row,                     \
        kernels::level::interpolate_row, kernels::level::blend_two_rows                           \
  }
  static constexpr Kernels kScalar = HEADRACE_OPENCV_AREA_KERNELS(scalar);
#ifdef HEADRACE_X86_KERNELS
  static constexpr Kernels kAvx2 = HEADRACE_OPENCV_AREA_KERNELS(avx2);
  static constexpr Kernels kAvx512 = HEADRACE_OPENCV_AREA_KERNELS(avx512);
  switch (simd_level()) {
    case SimdLevel::avx512:
      return kAvx512;
    case SimdLevel::avx2:
      return kAvx2;
    case SimdLevel::sse42:
    case SimdLevel::scalar:
      break;
  }
#endif
#undef HEADRACE_OPENCV_AREA_KERNELS
  return kScalar;
}

std::uint8_t* OpenCvArea::table_of(std::size_t size) {
  constexpr std::size_t kAlignment = kernels::kTapTableAlignment;
  if (table_memory_.size() < size + kAlignment) table_memory_.resize(size + kAlignment);
  const auto address = reinterpret_cast<std::uintptr_t>(table_memory_.data());
  return table_memory_.data() + (round_up(address, kAlignment) - address);
}

kernels::TapColumns OpenCvArea::columns() const noexcept {
  return {.starts = columns_.starts.data(),
          .counts = columns_.counts.data(),
          .weights = columns_.weights.data(),
          .pairs = column_pairs_.data(),
          .stride = columns_.stride,
          .taps = columns_.taps,
          .pixels = to_.width,
          .source_pixels = from_.width,
          .table = table_,
          .has_vectors = has_vectors_};
}

void OpenCvArea::plan_average(bool is_flipped) {
  const OpenCvScale across(from_.width, to_.width);
  const OpenCvScale down(from_.height, to_.height);
  scale_ = 1;
  bias_ = 0;
  if (across.is_whole() && down.is_whole()) {
    const std::size_t width = from_.width / to_.width;
    const std::size_t height = from_.height / to_.height;
    plan_boxes(width, to_.width, is_flipped, columns_);
    plan_boxes(height, to_.height, false, rows_);
    scale_ = 1.0F / static_cast<float>(width * height);
    if (width == 2 && height == 2) bias_ = 0.125F;  // the middle is rounded up
    way_ = width * height > kMostExact ? Way::sum_whole_numbers : Way::average;
  } else {
    plan_cells(from_.width, to_.width, is_flipped, columns_);
    plan_cells(from_.height, to_.height, false, rows_);
    way_ = Way::average;
  }
  if (way_ == Way::sum_whole_numbers) return;
  std::uint8_t* table = table_of(kernels::average_table_bytes(to_.width, columns_.taps));
  const kernels::TapColumns taps = columns();
  has_vectors_ = kernels_->plan_average_rows(&taps, table);
  table_ = table;
  const std::size_t row_size = round_up(to_.width * kRgbChannels, kBlock) + kBlock;
  if (rows_.taps <= kMostKept) return averages_.reset(row_size, rows_.taps, 2);
  way_ = Way::average_many;
  if (sums_.size() < row_size) sums_.resize(row_size);
  if (average_.size() < row_size) average_.resize(row_size);
}

void OpenCvArea::plan_interpolation(bool is_flipped) {
  way_ = Way::interpolate;
  plan_neighbours(from_.width, to_.width, true, is_flipped, columns_, column_pairs_);
  plan_neighbours(from_.height, to_.height, false, false, rows_, row_pairs_);
  std::uint8_t* table = table_of(kernels::interpolate_table_bytes(to_.width));
  const kernels::TapColumns taps = columns();
  has_vectors_ = kernels_->plan_interpolate_row(&taps, table);
  table_ = table;
  between_.reset(round_up(to_.width * kRgbChannels, kBlock) + kBlock, 2, 1);
}

Status OpenCvArea::plan(ImageShape from, ImageShape to, bool is_flipped) noexcept {
  from_ = from;
  to_ = to;
  kernels_ = &kernels_for_this_cpu();
  try {
    if (from.width >= to.width && from.height >= to.height) {
      plan_average(is_flipped);
    } else {
      plan_interpolation(is_flipped);
    }
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the resampling plan");
  }
  return {};
}

void OpenCvArea::write_interpolated(const std::uint8_t* pixels, std::size_t row_stride,
                                    std::size_t y, std::uint8_t* out) noexcept {
  const kernels::TapColumns taps = columns();
  const std::size_t first = rows_.starts[y];
  const std::size_t last = first + rows_.counts[y] - 1;
  between_.keep(first, rows_.counts[y], [&](std::size_t row) noexcept {
    kernels_->interpolate_row(pixels + row * row_stride, &taps, between_.row_at(row));
    return std::size_t{1};
  });
  kernels_->blend_two_rows(between_.row_at(first), between_.row_at(last),
                           static_cast<int>(row_pairs_[y] & 0xFFFFU),
                           static_cast<int>(row_pairs_[y] >> 16), to_.width * kRgbChannels, out);
}

// Two rows at a time: they share what is known about the columns.
void OpenCvArea::write_average(const std::uint8_t* pixels, std::size_t row_stride, std::size_t y,
                               std::uint8_t* out) noexcept {
  const kernels::TapColumns taps = columns();
  const std::size_t first = rows_.starts[y];
  const std::size_t count = rows_.counts[y];
  averages_.keep(first, count, [&](std::size_t row) noexcept {
    const kernels::SourceRows rows{pixels + row * row_stride, row_stride,
                                   std::min<std::size_t>(2, from_.height - row)};
    float* const to[] = {averages_.row_at(row), averages_.row_at(row + 1)};
    kernels_->average_rows(&rows, &taps, to);
    return rows.count;
  });
  const float* rows[kMostKept];
  for (std::size_t k = 0; k < count; ++k) rows[k] = averages_.row_at(first + k);
  kernels_->blend_averages(rows, rows_.weights.data() + y * rows_.stride, count,
                           to_.width * kRgbChannels, scale_, bias_, out);
}

void OpenCvArea::write_average_of_many(const std::uint8_t* pixels, std::size_t row_stride,
                                       std::size_t y, std::uint8_t* out) noexcept {
  const kernels::TapColumns taps = columns();
  const std::size_t size = to_.width * kRgbChannels;
  const float* weights = rows_.weights.data() + y * rows_.stride;
  std::fill_n(sums_.begin(), size, 0.0F);
  for (std::size_t k = 0; k < rows_.counts[y]; ++k) {
    const kernels::SourceRows row{pixels + (rows_.starts[y] + k) * row_stride, row_stride, 1};
    float* const to = average_.data();
    kernels_->average_rows(&row, &taps, &to);
    kernels_->add_average(to, weights[k], size, sums_.data());
  }
  constexpr float kOne = 1;
  const float* const sums = sums_.data();
  kernels_->blend_averages(&sums, &kOne, 1, size, scale_, bias_, out);
}

void OpenCvArea::write_sums(const std::uint8_t* pixels, std::size_t row_stride, std::size_t y,
                            std::uint8_t* out) const noexcept {
  for (std::size_t i = 0; i < to_.width * kRgbChannels; ++i) {
    const std::size_t column = columns_.starts[i / kRgbChannels] * kRgbChannels + i % kRgbChannels;
    std::uint64_t sum = 0;
    for (std::size_t row = 0; row < rows_.taps; ++row) {
      const std::uint8_t* source = pixels + (rows_.starts[y] + row) * row_stride + column;
      for (std::size_t k = 0; k < columns_.taps; ++k) sum += source[k * kRgbChannels];
    }
    out[i] =
        static_cast<std::uint8_t>(std::min(255L, std::lrintf(static_cast<float>(sum) * scale_)));
  }
}

void OpenCvArea::write_row(const std::uint8_t* pixels, std::size_t row_stride, std::size_t y,
                           std::uint8_t* out) noexcept {
  switch (way_) {
    case Way::interpolate:
      return write_interpolated(pixels, row_stride, y, out);
    case Way::average:
      return write_average(pixels, row_stride, y, out);
    case Way::average_many:
      return write_average_of_many(pixels, row_stride, y, out);
    case Way::sum_whole_numbers:
      return write_sums(pixels, row_stride, y, out);
  }
}

}  // namespace headrace
