// OpenCV's INTER_AREA, bit for bit, on interleaved RGB of 8 bits a channel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "headrace/image.hpp"
#include "headrace/resample/axis_plan.hpp"
#include "headrace/resample/row_window.hpp"
#include "headrace/status.hpp"

namespace headrace {

namespace kernels {
struct TapColumns;
}

// A plan for one image after another; its memory is reused. One for each thread.
class OpenCvArea {
 public:
  OpenCvArea() noexcept = default;
  OpenCvArea(const OpenCvArea&) = delete;
  OpenCvArea& operator=(const OpenCvArea&) = delete;

  // Sides are 1 to 2147483647. All SIMD levels give the same bytes.
  Status plan(ImageShape from, ImageShape to, bool is_flipped) noexcept;

  // Row `y` of the output, without gaps between its pixels. Only after a plan that succeeded, and
  // for the same pixels until the next plan; rows in rising order are the cheapest.
  void write_row(const std::uint8_t* pixels, std::size_t row_stride, std::size_t y,
                 std::uint8_t* out) noexcept;

 private:
  // OpenCV's regimes. Sums of whole numbers are exact in single precision too, unless they are
  // large; those of many rows are added up one by one instead of being kept.
  enum class Way { interpolate, average, average_many, sum_whole_numbers };
  struct Kernels;

  static const Kernels& kernels_for_this_cpu() noexcept;
  [[nodiscard]] std::uint8_t* table_of(std::size_t size);
  [[nodiscard]] kernels::TapColumns columns() const noexcept;
  void plan_average(bool is_flipped);
  void plan_interpolation(bool is_flipped);
  void write_interpolated(const std::uint8_t* pixels, std::size_t row_stride, std::size_t y,
                          std::uint8_t* out) noexcept;
  void write_average(const std::uint8_t* pixels, std::size_t row_stride, std::size_t y,
                     std::uint8_t* out) noexcept;
  void write_average_of_many(const std::uint8_t* pixels, std::size_t row_stride, std::size_t y,
                             std::uint8_t* out) noexcept;
  void write_sums(const std::uint8_t* pixels, std::size_t row_stride, std::size_t y,
                  std::uint8_t* out) const noexcept;

  Way way_ = Way::average;
  const Kernels* kernels_ = nullptr;  // those that made the table
  ImageShape from_{};
  ImageShape to_{};
  AxisPlan columns_;
  AxisPlan rows_;
  std::vector<std::uint32_t> column_pairs_;  // weights of two neighbours, the second one above
  std::vector<std::uint32_t> row_pairs_;
  float scale_ = 1;  // of sums, before they are rounded
  float bias_ = 0;
  bool has_vectors_ = false;
  std::vector<std::uint8_t> table_memory_;
  const std::uint8_t* table_ = nullptr;  // inside table_memory_
  RowRing<float> averages_;
  RowRing<std::int16_t> between_;
  std::vector<float> sums_;
  std::vector<float> average_;
};

}  // namespace headrace
