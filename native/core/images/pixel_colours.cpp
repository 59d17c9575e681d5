#include "core/images/pixel_colours.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/dispatch.hpp"
#include "kernels/pixel_arithmetic.hpp"

namespace headrace {
namespace {

constexpr std::size_t kLevels = kernels::kLevels;
using ChannelTables = std::array<std::array<std::uint8_t, kLevels>, kRgbChannels>;
using Histogram = std::array<std::uint64_t, kLevels>;
using Histograms = std::array<Histogram, kRgbChannels>;

struct ColourKernels {
  decltype(&kernels::scalar::blend_with_level) blend_with_level;
  decltype(&kernels::scalar::blend_with_grey) blend_with_grey;
  decltype(&kernels::scalar::sum_grey) sum_grey;
  decltype(&kernels::scalar::map_levels) map_levels;
  decltype(&kernels::scalar::shift_hue) shift_hue;
  decltype(&kernels::scalar::find_limits) find_limits;
};

#define HEADRACE_TABLE(level)                                                                    \
  ColourKernels {                                                                                \
    kernels::level::blend_with_level, kernels::level::blend_with_grey, kernels::level::sum_grey, \
        kernels::level::map_levels, kernels::level::shift_hue, kernels::level::find_limits       \
  }
constexpr KernelTables<ColourKernels> kColourKernels = HEADRACE_KERNEL_TABLES(HEADRACE_TABLE);
#undef HEADRACE_TABLE

// The same table for all channels.
template <typename LevelOf>
void map_all(ImageShape shape, std::uint8_t* pixels, LevelOf&& level_of) noexcept {
  std::array<std::uint8_t, kLevels> table;
  for (std::size_t level = 0; level < kLevels; ++level) table[level] = level_of(level);
  in_use(kColourKernels)
      .map_levels(pixels, shape.width * shape.height * kRgbChannels, table.data());
}

void map_channels(ImageShape shape, std::uint8_t* pixels, const ChannelTables& tables) noexcept {
  const std::size_t size = shape.width * shape.height * kRgbChannels;
  for (std::size_t i = 0; i < size; i += kRgbChannels) {
    for (std::size_t c = 0; c < kRgbChannels; ++c) pixels[i + c] = tables[c][pixels[i + c]];
  }
}

// Neighbours are often the same: counted apart, none waits for the one before it.
Histograms count_levels(ImageShape shape, const std::uint8_t* pixels) noexcept {
  std::array<std::array<std::array<std::uint32_t, kLevels>, kRgbChannels>, 2> counts{};
  Histograms sums{};
  for (std::size_t y = 0; y < shape.height; ++y) {  // a row is too short to overflow
    const std::uint8_t* row = pixels + y * shape.width * kRgbChannels;
    for (std::size_t x = 0; x < shape.width; ++x) {
      for (std::size_t c = 0; c < kRgbChannels; ++c) ++counts[x % 2][c][row[x * kRgbChannels + c]];
    }
    if (y % 4096 != 4095 && y + 1 != shape.height) continue;
    for (auto& part : counts) {
      for (std::size_t c = 0; c < kRgbChannels; ++c) {
        for (std::size_t level = 0; level < kLevels; ++level) sums[c][level] += part[c][level];
        part[c].fill(0);
      }
    }
  }
  return sums;
}

}  // namespace

void change_colours(StepKind kind, float factor, ImageShape shape, std::uint8_t* pixels) noexcept {
  const ColourKernels& kernels = in_use(kColourKernels);
  const std::size_t count = shape.width * shape.height;
  if (kind == StepKind::saturation) return kernels.blend_with_grey(pixels, count, factor);
  double level = 0;
  if (kind == StepKind::contrast) {
    level = static_cast<double>(kernels.sum_grey(pixels, count)) / static_cast<double>(count);
  }
  kernels.blend_with_level(pixels, count * kRgbChannels, factor, level);
}

float hue_sixths(float circles) noexcept {
  const float rest = circles - std::floor(circles);
  return rest < 1 ? 6 * rest : 0;
}

unsigned posterize_mask(float bits) noexcept { return 0xFFU << (8 - static_cast<unsigned>(bits)); }

void turn_hue(float circles, ImageShape shape, std::uint8_t* pixels) noexcept {
  in_use(kColourKernels).shift_hue(pixels, shape.width * shape.height, hue_sixths(circles));
}

void posterize(float bits, ImageShape shape, std::uint8_t* pixels) noexcept {
  const unsigned mask = posterize_mask(bits);
  map_all(shape, pixels,
          [mask](std::size_t level) { return static_cast<std::uint8_t>(level & mask); });
}

void solarize(float threshold, ImageShape shape, std::uint8_t* pixels) noexcept {
  map_all(shape, pixels, [threshold](std::size_t level) {
    return kernels::solarized(static_cast<std::uint8_t>(level), threshold);
  });
}

void stretch_contrast(ImageShape shape, std::uint8_t* pixels) noexcept {
  std::array<std::uint8_t, kRgbChannels> low{};
  std::array<std::uint8_t, kRgbChannels> high{};
  in_use(kColourKernels).find_limits(pixels, shape.width * shape.height, low.data(), high.data());
  ChannelTables tables;
  bool is_stretched = false;
  for (std::size_t c = 0; c < kRgbChannels; ++c) {
    for (std::size_t level = 0; level < kLevels; ++level) {
      tables[c][level] = kernels::stretched(static_cast<std::uint8_t>(level), low[c], high[c]);
    }
    is_stretched = is_stretched || low[c] != 0 || high[c] != 255;
  }
  if (is_stretched) map_channels(shape, pixels, tables);
}

void equalize(ImageShape shape, std::uint8_t* pixels) noexcept {
  const Histograms histograms = count_levels(shape, pixels);
  ChannelTables tables;
  for (std::size_t c = 0; c < kRgbChannels; ++c) {
    kernels::spread_levels(histograms[c].data(), tables[c].data());
  }
  map_channels(shape, pixels, tables);
}

}  // namespace headrace
