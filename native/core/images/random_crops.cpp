#include "headrace/images/random_crops.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "headrace/counter_random.hpp"

namespace headrace {
namespace {

constexpr std::uint64_t kTries = 10;
constexpr std::uint64_t kDrawsOfTry = 4;  // area, ratio, top, left
constexpr std::int64_t kMostPixels = std::numeric_limits<std::int32_t>::max();

struct RandomPart {
  double top, left, height, width;
};

RandomPart largest_within(double height, double width, const CropLimits& limits) noexcept {
  const double ratio = width / height;
  const double h = ratio < limits.least_ratio ? std::nearbyint(width / limits.least_ratio) : height;
  const double w = ratio > limits.most_ratio ? std::nearbyint(height * limits.most_ratio) : width;
  const double kept_h = std::clamp(h, 1.0, height), kept_w = std::clamp(w, 1.0, width);
  return {std::floor((height - kept_h) / 2), std::floor((width - kept_w) / 2), kept_h, kept_w};
}

RandomPart draw_part(std::uint64_t named, double height, double width,
                     const CropLimits& limits) noexcept {
  const double least = std::log(limits.least_ratio), most = std::log(limits.most_ratio);
  for (std::uint64_t draw = 0; draw < kTries * kDrawsOfTry; draw += kDrawsOfTry) {
    const double scale =
        limits.least_scale + (limits.most_scale - limits.least_scale) * uniform_of(named, draw);
    const double area = height * width * scale;
    const double ratio = std::exp(least + (most - least) * uniform_of(named, draw + 1));
    const double w = std::nearbyint(std::sqrt(area * ratio));
    const double h = std::nearbyint(std::sqrt(area / ratio));
    if (!(w > 0 && w <= width && h > 0 && h <= height)) continue;
    return {std::floor(uniform_of(named, draw + 2) * (height - h + 1)),
            std::floor(uniform_of(named, draw + 3) * (width - w + 1)), h, w};
  }
  return largest_within(height, width, limits);
}

}  // namespace

Status draw_resized_crops(std::span<const std::uint64_t> words,
                          std::span<const std::int64_t> samples,
                          std::span<const std::int64_t> heights,
                          std::span<const std::int64_t> widths, const CropLimits& limits,
                          std::span<std::int32_t> out) noexcept {
  const std::size_t n = samples.size();
  if (heights.size() != n || widths.size() != n || out.size() != 4 * n) {
    return Status(Code::invalid_argument, "every sample has a height, a width and a crop");
  }
  const std::uint64_t prefix = hash_words(words);
  for (std::size_t i = 0; i < n; ++i) {
    if (std::min(heights[i], widths[i]) < 1 || std::max(heights[i], widths[i]) > kMostPixels) {
      return Status(Code::invalid_argument, "a picture has sides of 1 to 2**31 - 1");
    }
    const std::uint64_t named = hash_word(prefix, static_cast<std::uint64_t>(samples[i]));
    const RandomPart part =
        draw_part(named, static_cast<double>(heights[i]), static_cast<double>(widths[i]), limits);
    const double numbers[] = {part.top, part.left, part.height, part.width};
    std::transform(std::begin(numbers), std::end(numbers), out.begin() + 4 * std::ptrdiff_t(i),
                   [](double number) { return static_cast<std::int32_t>(number); });
  }
  return {};
}

}  // namespace headrace
