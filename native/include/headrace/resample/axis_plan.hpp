// Which sources make the outputs along one axis of an image.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace headrace {

struct AxisPlan {
  std::size_t taps = 0;    // most that any output has
  std::size_t stride = 0;  // weights from one output to the next; those behind the count are zero
  std::vector<std::uint32_t> starts;
  std::vector<std::uint32_t> counts;
  std::vector<float> weights;
};

}  // namespace headrace
