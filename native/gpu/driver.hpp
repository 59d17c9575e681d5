// The driver of NVIDIA's GPUs, by its own interface: libcuda.so.1 is opened when a GPU is asked
// for, and nothing else of CUDA is needed. One object for each device; any thread may use it.
#pragma once

#include <memory>

#include "gpu/abstract_device.hpp"

namespace headrace::gpu {

class Driver final : public Device {
 public:
  // Opens the library and the device's primary context, which torch and others use, too, and loads
  // the kernels. `unsupported`: there is no driver, no such device, no kernels for it, or the
  // driver belongs to the process that this one was forked from.
  static Result<std::unique_ptr<Driver>> open(int device, ByteSpan kernels) noexcept;
  ~Driver() override;

  Status enter() noexcept override;
  void leave() noexcept override;
  Result<DevicePointer> allocate(std::size_t size) noexcept override;
  void free(DevicePointer memory) noexcept override;
  Result<MutableByteSpan> allocate_pinned(std::size_t size) noexcept override;
  void free_pinned(MutableByteSpan memory) noexcept override;
  Status pin(ByteSpan memory) noexcept override;
  void unpin(ByteSpan memory) noexcept override;
  [[nodiscard]] std::size_t pinned_bytes(ByteSpan memory) noexcept override;
  Result<Stream*> make_stream() noexcept override;
  void destroy(Stream* stream) noexcept override;
  Status copy_to_device(DevicePointer to, ByteSpan from, Stream* stream) noexcept override;
  Status copy_to_host(MutableByteSpan to, DevicePointer from, Stream* stream) noexcept override;
  Status clear(DevicePointer memory, std::size_t size, Stream* stream) noexcept override;
  Status launch(const Launch& launch, void** arguments, Stream* stream) noexcept override;
  Status wait(Stream* stream) noexcept override;
  [[nodiscard]] Memory memory() noexcept override;

 private:
  struct State;
  explicit Driver(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace headrace::gpu
