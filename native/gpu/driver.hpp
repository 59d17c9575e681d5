// The driver of NVIDIA's GPUs, by its own interface: libcuda.so.1 is opened when a GPU is asked
// for, and nothing else of CUDA is needed. One object for each device; any thread may use it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
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
};

struct DriverFunctions;

class Driver {
 public:
  // Opens the library and the device's primary context, which torch and others use, too, and loads
  // the kernels. `unsupported`: there is no driver, no such device, or no kernels for it.
  static Result<std::unique_ptr<Driver>> open(int device, ByteSpan kernels) noexcept;
  ~Driver();
  Driver(const Driver&) = delete;
  Driver& operator=(const Driver&) = delete;

  struct Stream;

  // Makes the device's context that of this thread until the end of the scope.
  class Scope {
   public:
    explicit Scope(const Driver& driver) noexcept;
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const Driver& driver_;
    bool is_pushed_;
  };

  // All that follows: inside a Scope.
  Result<DevicePointer> allocate(std::size_t size) const noexcept;
  void free(DevicePointer memory) const noexcept;
  Result<MutableByteSpan> allocate_pinned(std::size_t size) const noexcept;
  void free_pinned(MutableByteSpan memory) const noexcept;
  Result<Stream*> make_stream() const noexcept;
  void destroy(Stream* stream) const noexcept;
  Status wait(Stream* stream) const noexcept;
  // From pinned memory, or to it; it must stay until the stream is done.
  Status copy_to_device(DevicePointer to, ByteSpan from, Stream* stream) const noexcept;
  Status copy_to_host(MutableByteSpan to, DevicePointer from, Stream* stream) const noexcept;
  Status clear(DevicePointer memory, std::size_t size, Stream* stream) const noexcept;

  Status launch(const Launch& launch, void** arguments, Stream* stream) noexcept;

  struct Memory {
    std::size_t free, total;
  };
  [[nodiscard]] Memory memory() const noexcept;

 private:
  struct State;
  explicit Driver(std::unique_ptr<State> state) noexcept;
  std::unique_ptr<State> state_;
};

}  // namespace headrace::gpu
