#include "penstock/resize.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <new>
#include <vector>

#include "kernels/kernels.hpp"
#include "penstock/cpu.hpp"

namespace penstock {
namespace {

struct Kernels {
  decltype(&kernels::scalar::blend_rows) blend_rows;
  decltype(&kernels::scalar::reduce_row) reduce_row;
};

Kernels resize_kernels() noexcept {
#ifdef PENSTOCK_X86_KERNELS
  switch (simd_level()) {
    case SimdLevel::avx512:
      return {kernels::avx512::blend_rows, kernels::avx512::reduce_row};
    case SimdLevel::avx2:
      return {kernels::avx2::blend_rows, kernels::avx2::reduce_row};
    case SimdLevel::sse42:
    case SimdLevel::scalar:
      break;
  }
#endif
  return {kernels::scalar::blend_rows, kernels::scalar::reduce_row};
}

// Which sources, with which weights, make each output along one axis. All outputs have `taps` taps;
// the surplus ones weigh nothing.
struct AxisPlan {
  std::size_t taps = 0;
  std::vector<std::uint32_t> starts;
  std::vector<std::uint32_t> counts;  // taps that weigh something
  std::vector<float> weights;
};

struct Cell {
  std::size_t first;  // first source touched, possibly in part
  std::size_t count;  // sources touched
  float first_weight;
  float inner_weight;
  float last_weight;
};

// A source touched by less than this share is left out, as OpenCV does.
constexpr double kNegligible = 1e-3;

// The sources under output `index`, with OpenCV's arithmetic, so that the weights are its weights.
Cell cell_at(std::size_t index, double scale, std::size_t size) noexcept {
  const double begin = static_cast<double>(index) * scale;
  const double end = begin + scale;
  const double width = std::min(scale, static_cast<double>(size) - begin);
  const auto last = std::min(static_cast<std::size_t>(std::floor(end)), size - 1);
  const auto whole = std::min(static_cast<std::size_t>(std::ceil(begin)), last);
  const double head = static_cast<double>(whole) - begin;
  const double tail = end - static_cast<double>(last);
  const bool has_head = head > kNegligible;
  const bool has_tail = tail > kNegligible;
  const auto inner = static_cast<float>(1.0 / width);
  const auto head_weight = static_cast<float>(head / width);
  const auto tail_weight = static_cast<float>(std::min(std::min(tail, 1.0), width) / width);
  Cell cell{};
  cell.first = has_head ? whole - 1 : whole;
  cell.count = last - whole + (has_head ? 1 : 0) + (has_tail ? 1 : 0);
  cell.inner_weight = inner;
  cell.last_weight = has_tail ? tail_weight : inner;
  cell.first_weight = has_head ? head_weight : (cell.count == 1 ? cell.last_weight : inner);
  return cell;
}

void append_weights(const Cell& cell, bool is_integral, AxisPlan& plan) {
  const std::size_t begin = plan.weights.size();
  plan.weights.resize(begin + plan.taps, 0.0F);
  float* weights = plan.weights.data() + begin;
  std::fill_n(weights, cell.count, is_integral ? 1.0F : cell.inner_weight);
  if (is_integral) return;
  weights[cell.count - 1] = cell.last_weight;
  weights[0] = cell.first_weight;
}

AxisPlan plan_axis(std::size_t size, std::size_t out_size, bool is_integral) {
  const double scale = static_cast<double>(size) / static_cast<double>(out_size);
  AxisPlan plan;
  for (std::size_t i = 0; i < out_size; ++i) {
    plan.taps = std::max(plan.taps, cell_at(i, scale, size).count);
  }
  plan.starts.reserve(out_size);
  plan.counts.reserve(out_size);
  plan.weights.reserve(out_size * plan.taps);
  for (std::size_t i = 0; i < out_size; ++i) {
    const Cell cell = cell_at(i, scale, size);
    plan.starts.push_back(static_cast<std::uint32_t>(cell.first));
    plan.counts.push_back(static_cast<std::uint32_t>(cell.count));
    append_weights(cell, is_integral, plan);
  }
  return plan;
}

// Whole-number factors on both axes sum grey levels exactly and divide once at the end; halving
// rounds up at the middle. OpenCV has the same two special cases.
struct Rounding {
  bool is_integral;
  float scale;
  float bias;
};

Rounding choose_rounding(ImageShape from, ImageShape to) noexcept {
  if (from.width % to.width != 0 || from.height % to.height != 0) return {false, 1.0F, 0.0F};
  const std::size_t columns = from.width / to.width;
  const std::size_t rows = from.height / to.height;
  const float area = static_cast<float>(columns) * static_cast<float>(rows);
  return {true, 1.0F / area, columns == 2 && rows == 2 ? 0.125F : 0.0F};
}

void shrink(const std::byte* pixels, ImageShape shape, std::byte* out, ImageShape out_shape) {
  const Rounding rounding = choose_rounding(shape, out_shape);
  const AxisPlan columns = plan_axis(shape.width, out_shape.width, rounding.is_integral);
  const AxisPlan rows = plan_axis(shape.height, out_shape.height, rounding.is_integral);
  const std::size_t row_size = shape.width * kRgbChannels;
  // Surplus taps and the fourth lane of the last pixel read behind the row.
  std::vector<float> work(row_size + (columns.taps + 1) * kRgbChannels + 1);
  const Kernels kernels = resize_kernels();
  const auto* source = reinterpret_cast<const std::uint8_t*>(pixels);
  auto* destination = reinterpret_cast<std::uint8_t*>(out);
  for (std::size_t y = 0; y < out_shape.height; ++y) {
    kernels.blend_rows(source + rows.starts[y] * row_size, row_size,
                       rows.weights.data() + y * rows.taps, rows.counts[y], row_size, work.data());
    kernels.reduce_row(work.data(), columns.starts.data(), columns.weights.data(), columns.taps,
                       out_shape.width, rounding.scale, rounding.bias,
                       destination + y * out_shape.width * kRgbChannels);
  }
}

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
  try {
    shrink(pixels.data(), shape, out.data(), out_shape);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the resampling plan");
  }
  return {};
}

}  // namespace penstock
