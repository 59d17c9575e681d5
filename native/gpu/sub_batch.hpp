// Some pictures of a batch, as a batch of their own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "headrace/images/load.hpp"

namespace headrace::gpu {

class SubBatch {
 public:
  // Throws std::bad_alloc.
  SubBatch(const LoadBatch& batch, std::span<const std::size_t> positions);
  SubBatch(const SubBatch&) = delete;
  SubBatch& operator=(const SubBatch&) = delete;

  [[nodiscard]] const LoadBatch& batch() const noexcept { return batch_; }

 private:
  std::vector<std::uint64_t> offsets_, sizes_, tile_index_offsets_, tile_index_sizes_;
  std::vector<std::uint8_t> modes_, flips_;
  std::vector<std::uint32_t> widths_, heights_, checksums_;
  std::vector<std::int32_t> crops_;
  std::vector<std::vector<float>> values_;
  std::vector<PixelStep> steps_;
  LoadBatch batch_;  // of the above
};

}  // namespace headrace::gpu
