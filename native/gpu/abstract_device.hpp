// What the loader asks of a GPU. The driver fulfils it (driver.hpp), and in tests a CPU does.
//
// Contract. Any thread may call, inside a DeviceScope of its own. What is handed to a stream is
// done in its order, later; the memory it uses must stay until `wait` has returned. A failure of
// the device may be told by any later call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "headrace/bytes.hpp"
#include "headrace/status.hpp"

namespace headrace::gpu {

using DevicePointer = std::uint64_t;  // as the driver names device memory

// Of a kernel.
struct Launch {
  std::string_view kernel;
  std::uint32_t blocks, layers, threads;
  std::size_t shared_bytes;
  bool prefers_shared = false;  // to caches: as many thread blocks at a time as fit
};

class Device {
 public:
  // Whoever fulfils this knows what it is.
  struct Stream {
   protected:
    ~Stream() = default;
  };
  struct Memory {
    std::size_t free, total;
  };

  Device() noexcept = default;
  Device(const Device&) = delete;
  Device& operator=(const Device&) = delete;
  virtual ~Device() = default;

  // Makes the device that of the calling thread, until `leave`.
  virtual Status enter() noexcept = 0;
  virtual void leave() noexcept = 0;

  // Aligned to 256 bytes. `out_of_memory` where there is none left.
  virtual Result<DevicePointer> allocate(std::size_t size) noexcept = 0;
  virtual void free(DevicePointer memory) noexcept = 0;  // nothing for 0
  // Of the CPU; the device can fetch it by itself.
  virtual Result<MutableByteSpan> allocate_pinned(std::size_t size) noexcept = 0;
  virtual void free_pinned(MutableByteSpan memory) noexcept = 0;  // nothing for an empty one
  // Memory of the CPU that is there already, whole pages of it, is pinned and only read by the
  // device, under the same address. `unsupported` where the system does not allow it. A copy must
  // not go beyond what was pinned at once.
  virtual Status pin(ByteSpan memory) noexcept = 0;
  virtual void unpin(ByteSpan memory) noexcept = 0;
  // How much of it, from its first byte on, is pinned in one piece under the same address, by
  // whomever.
  [[nodiscard]] virtual std::size_t pinned_bytes(ByteSpan memory) noexcept = 0;
  virtual Result<Stream*> make_stream() noexcept = 0;
  virtual void destroy(Stream* stream) noexcept = 0;

  // From pinned memory, or to it.
  virtual Status copy_to_device(DevicePointer to, ByteSpan from, Stream* stream) noexcept = 0;
  virtual Status copy_to_host(MutableByteSpan to, DevicePointer from, Stream* stream) noexcept = 0;
  virtual Status clear(DevicePointer memory, std::size_t size, Stream* stream) noexcept = 0;
  // Arguments as the kernel has them, by address; they may go when this returns.
  virtual Status launch(const Launch& launch, void** arguments, Stream* stream) noexcept = 0;
  // Until all that was handed to the stream is done. Other threads may run on this CPU meanwhile.
  virtual Status wait(Stream* stream) noexcept = 0;

  [[nodiscard]] virtual Memory memory() noexcept = 0;
};

class DeviceScope {
 public:
  explicit DeviceScope(Device& device) noexcept : device_(device), status_(device.enter()) {}
  ~DeviceScope() {
    if (status_.is_ok()) device_.leave();
  }
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

  // Without it nothing else may be called.
  [[nodiscard]] const Status& status() const noexcept { return status_; }

 private:
  Device& device_;
  Status status_;
};

}  // namespace headrace::gpu
