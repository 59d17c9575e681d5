// The kernels of a batch, one after the other.
#pragma once

#include <cstdint>

#include "gpu/abstract_device.hpp"
#include "gpu/batch.hpp"
#include "headrace/images/load.hpp"
#include "headrace/status.hpp"

namespace headrace::gpu {

// Where a batch is on the device. Sizes are those of `bytes_of`.
struct StageMemory {
  DevicePointer blob, codes, samples, status, spans;
  DevicePointer words;    // weights of the resampling, and the order of the tiles
  DevicePointer lanczos;  // lanczos_values(), for that filter
  DevicePointer table;    // level_table(), 0 if it is empty
  DevicePointer values;   // the output
  // With steps: pictures as they come from the resampling, and room for as many.
  DevicePointer pictures = 0, copies = 0;
  DevicePointer sums = 0;  // sum_tables(), for JPEGs that were fetched
};

// As it is for one batch.
struct StageBytes {
  std::size_t codes, samples, status, spans, words;
  std::size_t pictures, copies;  // 0 without steps
};
[[nodiscard]] StageBytes bytes_of(const BatchSizes& sizes, std::size_t pictures) noexcept;

// Where kernels run: a stream of a GPU, or the CPU of a test.
class Launcher {
 public:
  Launcher() noexcept = default;
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;
  virtual ~Launcher() = default;

  // Arguments as the kernel has them, by address.
  virtual Status launch(const Launch& launch, void** arguments) noexcept = 0;
};

// The blob is there: JPEGs that are to be fetched come behind it.
Status launch_fetch(Launcher& launcher, DevicePointer blob, std::size_t pictures) noexcept;

// The blob is there and what was to be fetched, and `status` is zero.
Status launch_stages(Launcher& launcher, const StageMemory& memory, const BatchSizes& sizes,
                     std::size_t pictures, const LoadOptions& options) noexcept;

}  // namespace headrace::gpu
