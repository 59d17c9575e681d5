// Resampling of a part of an image to any size.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "headrace/image.hpp"
#include "headrace/resample/axis_plan.hpp"
#include "headrace/resample/fixed_plan.hpp"
#include "headrace/resample/opencv_area.hpp"
#include "headrace/resample/row_window.hpp"
#include "headrace/status.hpp"

namespace headrace {

namespace kernels {
struct FixedColumns;
struct ValueRow;
}  // namespace kernels

enum class ResampleFilter : std::uint8_t {
  area,      // OpenCV's INTER_AREA; its bilinear relative where a side grows
  bilinear,  // Pillow's BILINEAR: a triangle as wide as the shrinking asks for
  bicubic,   // Pillow's BICUBIC
  lanczos,   // Pillow's LANCZOS, three lobes to each side
  nearest,   // Pillow's NEAREST: the pixel under an output's centre
  // OpenCV's INTER_AREA bit for bit: the region has whole pixels. `area` is a little faster.
  opencv_area,
};

// Sources to each side of an output's centre that count where a side does not shrink.
[[nodiscard]] std::size_t support_of(ResampleFilter filter) noexcept;

// Interleaved RGB that someone else owns.
struct PixelView {
  const std::byte* pixels = nullptr;
  std::size_t row_stride = 0;  // bytes
  ImageShape shape{};
};

// Part of a view, in its pixels; with fractions only where both sides shrink. Pillow's
// filters, except `nearest`, also take its neighbours in the view, as Pillow does with a box.
struct Region {
  double left;
  double top;
  double width;
  double height;
  // Of the view in the picture: `nearest` rounds positions in the picture.
  double view_left = 0;
  double view_top = 0;
};

// A plan for one image after another; its memory is reused. One for each thread.
class Resampler {
 public:
  Resampler() noexcept = default;
  Resampler(const Resampler&) = delete;
  Resampler& operator=(const Resampler&) = delete;

  // For views of this shape. All SIMD levels give the same bytes.
  Status plan(ImageShape view_shape, const Region& region, ResampleFilter filter,
              ImageShape out_shape, bool is_flipped) noexcept;

  // Row `y` of the output, without gaps between its pixels. Only after a plan that succeeded, and
  // for the same view until the next plan; rows in rising order are the cheapest.
  void write_row(const PixelView& view, std::size_t y, std::uint8_t* out) noexcept;

  // True when this plan may write rows by write_values too: in the type and layout of a batch.
  [[nodiscard]] bool has_values() const noexcept { return has_sixteens_; }
  void write_values(const PixelView& view, std::size_t y, const kernels::ValueRow& out) noexcept;

 private:
  Status plan_opencv(const Region& region, ImageShape out_shape, bool is_flipped) noexcept;
  void quantize_weights();
  [[nodiscard]] kernels::FixedColumns fixed_columns() const noexcept;
  void prepare_work();
  void blend_row(const std::uint8_t* source, std::size_t stride, std::size_t y) noexcept;
  void write_smooth_row(const std::uint8_t* source, std::size_t stride, std::size_t y,
                        std::uint8_t* out) noexcept;
  void write_sharp_row(const std::uint8_t* source, std::size_t stride, std::size_t y,
                       std::uint8_t* out) noexcept;
  void write_sharp_row_of_many(const std::uint8_t* source, std::size_t stride, std::size_t y,
                               std::uint8_t* out) noexcept;
  void write_nearest_row(const std::uint8_t* source, std::size_t stride, std::size_t y,
                         std::uint8_t* out) const noexcept;

  AxisPlan columns_;
  AxisPlan rows_;
  ImageShape out_shape_{};
  std::size_t first_column_ = 0;  // the first one used; starts count from it
  std::size_t used_columns_ = 0;
  bool is_fixed_ = false;  // few taps: whole numbers
  bool is_sharp_ = false;  // some weights are negative
  bool is_nearest_ = false;
  bool is_opencv_ = false;  // all else is in opencv_
  std::size_t first_row_ = 0;
  OpenCvArea opencv_;
  FixedPlan fixed_;
  std::vector<std::uint8_t> table_memory_;
  const std::uint8_t* table_ = nullptr;  // inside table_memory_, or none
  bool has_sixteens_ = false;            // the table is one of plan_sixteens
  std::vector<std::int16_t> fixed_work_;
  std::vector<float> float_work_;
  RowWindow<std::int16_t> fixed_rows_;
  RowWindow<std::uint8_t> byte_rows_;
  std::vector<std::uint32_t> same_starts_;  // of a row that only changes its type
  std::vector<float> same_weights_;
};

}  // namespace headrace
