#include "gpu/sub_batch.hpp"

namespace headrace::gpu {
namespace {

// `each` values for every picture; none where the batch has none.
template <typename T>
std::vector<T> pick(std::span<const T> values, std::span<const std::size_t> positions,
                    std::size_t each = 1) {
  std::vector<T> picked;
  if (values.empty()) return picked;
  picked.reserve(positions.size() * each);
  for (const std::size_t position : positions) {
    const auto of_picture = values.subspan(position * each, each);
    picked.insert(picked.end(), of_picture.begin(), of_picture.end());
  }
  return picked;
}

}  // namespace

SubBatch::SubBatch(const LoadBatch& batch, std::span<const std::size_t> positions)
    : offsets_(pick(batch.offsets, positions)),
      sizes_(pick(batch.sizes, positions)),
      tile_index_offsets_(pick(batch.tile_index_offsets, positions)),
      tile_index_sizes_(pick(batch.tile_index_sizes, positions)),
      modes_(pick(batch.modes, positions)),
      flips_(pick(batch.flips, positions)),
      widths_(pick(batch.widths, positions)),
      heights_(pick(batch.heights, positions)),
      checksums_(pick(batch.checksums, positions)),
      crops_(pick(batch.crops, positions, 4)) {
  values_.reserve(batch.steps.size());
  for (const PixelStep& step : batch.steps) {
    values_.push_back(pick(step.values, positions, values_per_picture(step.kind)));
    steps_.push_back({step.kind, values_.back()});
  }
  batch_ = {.offsets = offsets_,
            .sizes = sizes_,
            .modes = modes_,
            .widths = widths_,
            .heights = heights_,
            .crops = crops_,
            .flips = flips_,
            .checksums = checksums_,
            .steps = steps_,
            .tile_indices = batch.tile_indices,
            .tile_index_offsets = tile_index_offsets_,
            .tile_index_sizes = tile_index_sizes_};
}

}  // namespace headrace::gpu
