// Pictures whose components are resampled one by one: colours are converted at the size of the
// output. Less work, and close to the exact way.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/resample/plane_resampler.hpp"
#include "headrace/jpeg/window_decoder.hpp"
#include "headrace/resample/resample.hpp"

namespace headrace {

class LateColour {
 public:
  // Smooth filters, and not where much is reduced.
  [[nodiscard]] static bool is_possible(ResampleFilter filter, const Window& crop,
                                        ImageShape out) noexcept;

  // The samples must stay until the last row is made.
  Status plan(const DecodedSamples& samples, const Window& crop, ResampleFilter filter,
              ImageShape out, bool is_flipped) noexcept;

  // Row `y` of the output as interleaved RGB, until the next one.
  const std::uint8_t* row(std::size_t y) noexcept;

 private:
  DecodedSamples samples_;
  PlaneResampler first_;  // of the first component, and of all where none is sampled otherwise
  PlaneResampler others_;
  std::vector<std::uint8_t> rows_[3];
  std::vector<std::uint8_t> pixels_;
  std::size_t width_ = 0;
};

}  // namespace headrace
