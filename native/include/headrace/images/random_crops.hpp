// Random parts of pictures for RandomResizedCrop.
#pragma once

#include <cstdint>
#include <span>

#include "headrace/status.hpp"

namespace headrace {

struct CropLimits {
  double least_scale, most_scale;  // of the area
  double least_ratio, most_ratio;  // width by height
};

// For each sample four numbers: top, left, height, width. Up to ten times an area and a ratio are
// drawn, by the words as those of draw_uniforms; the first part that fits is placed at random. If
// none fits, it is the largest centred part within the ratios. Sides are 1 to 2^31 - 1.
Status draw_resized_crops(std::span<const std::uint64_t> words,
                          std::span<const std::int64_t> samples,
                          std::span<const std::int64_t> heights,
                          std::span<const std::int64_t> widths, const CropLimits& limits,
                          std::span<std::int32_t> out) noexcept;

}  // namespace headrace
