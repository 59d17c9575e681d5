// What steps do to one value or pixel. Compiled for GPUs, too, which therefore have the same bits.
//
// Everything is `static`: kernel sources share no copy of a function with other sources, which are
// compiled for other CPUs.
#pragma once

#include <stdint.h>

#include "core/device.hpp"

namespace headrace::kernels {

HEADRACE_DEVICE static inline uint8_t grey_of(uint8_t red, uint8_t green, uint8_t blue) {
  return static_cast<uint8_t>(0.2989 * red + 0.587 * green + 0.114 * blue);
}

// `rest` is the other picture's part.
HEADRACE_DEVICE static inline uint8_t blended(uint8_t value, double factor, double rest) {
  const double sum = factor * value + rest;
  return static_cast<uint8_t>(sum < 0 ? 0 : sum > 255 ? 255 : sum);
}

HEADRACE_DEVICE static inline float smaller(float a, float b) { return a < b ? a : b; }
HEADRACE_DEVICE static inline float larger(float a, float b) { return a > b ? a : b; }

// A colour by its hue, in sixths of the circle, its largest value, and the range down to the
// smallest.
struct Hue {
  float sixths, most, range;
};

// Turned by so many sixths, 0 to 6.
HEADRACE_DEVICE static inline Hue turned_hue(float red, float green, float blue, float sixths) {
  const float most = larger(red, larger(green, blue));
  const float range = most - smaller(red, smaller(green, blue));
  const float part = 1 / larger(range, 1);
  const float of_red = (green - blue) * part;
  const float of_green = (blue - red) * part + 2;
  const float of_blue = (red - green) * part + 4;
  const float hue = (red == most ? of_red : green == most ? of_green : of_blue) + sixths;
  const float low = hue < 0 ? hue + 6 : hue;
  return {low >= 6 ? low - 6 : low, most, range};
}

// A channel of a colour: its largest value, less a part of the range. Red is at 5, green at 3, blue
// at 1.
HEADRACE_DEVICE static inline uint8_t channel_of(const Hue& hue, float offset) {
  const float turned = hue.sixths + offset;
  const float k = turned >= 6 ? turned - 6 : turned;
  const float part = larger(0, smaller(1, smaller(k, 4 - k)));
  return static_cast<uint8_t>(static_cast<int>(hue.most - hue.range * part + 0.5F));
}

HEADRACE_DEVICE static inline uint8_t solarized(uint8_t level, float threshold) {
  return static_cast<uint8_t>(static_cast<float>(level) < threshold ? level : 255 - level);
}

// As Pillow's ImageOps.autocontrast, in double precision as there.
HEADRACE_DEVICE static inline uint8_t stretched(uint8_t level, uint8_t low, uint8_t high) {
  if (high <= low) return level;
  const double scale = 255.0 / (high - low);
  const double value = level * scale + -low * scale;
  return static_cast<uint8_t>(value < 0 ? 0 : value > 255 ? 255 : value);
}

// As Pillow's ImageOps.equalize: table[level] of a histogram of 256.
template <typename Count>
HEADRACE_DEVICE static inline void spread_levels(const Count* histogram, uint8_t* table) {
  Count sum = 0;
  Count last = 0;
  for (int level = 0; level < 256; ++level) {
    sum += histogram[level];
    if (histogram[level] != 0) last = histogram[level];
  }
  const Count step = (sum - last) / 255;
  Count before = step / 2;
  for (int level = 0; level < 256; ++level) {
    const Count value = step == 0 ? static_cast<Count>(level) : before / step;
    table[level] = static_cast<uint8_t>(value > 255 ? 255 : value);
    before += histogram[level];
  }
}

// `around` is the sum of the eight neighbours, `rest` is 1 - factor.
HEADRACE_DEVICE static inline uint8_t sharpened(int value, int around, float factor, float rest) {
  const int mean = (around + 5 * value + 6) / 13;  // rounded: no 13th is a half
  const float sum = factor * static_cast<float>(value) + rest * static_cast<float>(mean);
  const float kept = sum > 0 ? (sum < 255 ? sum : 255) : 0;  // also what is not a number
  return static_cast<uint8_t>(static_cast<int>(kept));
}

HEADRACE_DEVICE static inline uint8_t blurred(float sum) {
  const float kept = sum > 255 ? 255 : sum;
  return static_cast<uint8_t>(static_cast<int>(kept + 0.5F));
}

// Where `position`, which may lie outside, is in a line of `size` with a mirror at the middle of
// the first and of the last one.
HEADRACE_DEVICE static inline int64_t mirrored_position(int64_t position, int64_t size) {
  if (size == 1) return 0;
  const int64_t period = 2 * (size - 1);
  const int64_t rest = ((position % period) + period) % period;
  return rest < period - rest ? rest : period - rest;
}

// Eight bytes of noise, by their number: splitmix64.
HEADRACE_DEVICE static inline uint64_t noise_of(uint64_t seed, uint64_t number) {
  uint64_t state = seed + (number + 1) * 0x9E3779B97F4A7C15ULL;
  state = (state ^ (state >> 30)) * 0xBF58476D1CE4E5B9ULL;
  state = (state ^ (state >> 27)) * 0x94D049BB133111EBULL;
  return state ^ (state >> 31);
}

}  // namespace headrace::kernels
