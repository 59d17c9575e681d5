// Pictures in memory as a loader finds them in a file.
#pragma once

#include <cstdint>
#include <vector>

#include "headrace/images/load.hpp"
#include "tests/jpeg/support.hpp"

namespace headrace::gpu::testing {

struct StoredPictures {
  using Bytes = headrace::testing::Bytes;

  Bytes base, indices;
  std::vector<std::uint64_t> offsets, sizes, index_offsets, index_sizes;
  std::vector<std::uint8_t> modes, flips;
  std::vector<std::uint32_t> widths, heights;
  std::vector<std::uint32_t> checksums;  // none: nothing is checked
  std::vector<std::int32_t> crops;
  std::vector<PixelStep> steps;

  void add_picture(const Bytes& bytes, const Bytes& index, StoredMode mode, ImageShape shape,
                   const Window& crop, bool is_flipped) {
    offsets.push_back(base.size());
    sizes.push_back(bytes.size());
    base.insert(base.end(), bytes.begin(), bytes.end());
    index_offsets.push_back(indices.size());
    index_sizes.push_back(index.size());
    indices.insert(indices.end(), index.begin(), index.end());
    modes.push_back(static_cast<std::uint8_t>(mode));
    flips.push_back(is_flipped ? 1 : 0);
    widths.push_back(static_cast<std::uint32_t>(shape.width));
    heights.push_back(static_cast<std::uint32_t>(shape.height));
    for (const std::size_t value : {crop.top, crop.left, crop.height, crop.width}) {
      crops.push_back(static_cast<std::int32_t>(value));
    }
  }

  [[nodiscard]] LoadBatch batch() const {
    return {.offsets = offsets,
            .sizes = sizes,
            .modes = modes,
            .widths = widths,
            .heights = heights,
            .crops = crops,
            .flips = flips,
            .checksums = checksums,
            .steps = steps,
            .tile_indices = indices,
            .tile_index_offsets = index_offsets,
            .tile_index_sizes = index_sizes};
  }
};

}  // namespace headrace::gpu::testing
