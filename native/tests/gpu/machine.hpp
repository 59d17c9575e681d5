// Where the tests run kernels: on the CPU, and on a GPU if there is one.
#pragma once

#include <memory>

#include "gpu/stages.hpp"

namespace headrace::gpu::testing {

class Machine {
 public:
  Machine() noexcept = default;
  Machine(const Machine&) = delete;
  Machine& operator=(const Machine&) = delete;
  virtual ~Machine() = default;

  // Memory of the device with these bytes, or zero; there until the machine is gone.
  virtual DevicePointer put(ByteSpan bytes) = 0;
  virtual DevicePointer make(std::size_t size) = 0;
  virtual void get(DevicePointer from, MutableByteSpan bytes) = 0;
  virtual Launcher& launcher() = 0;
};

std::unique_ptr<Machine> make_cpu();
// None without a GPU, or without kernels: the variable HEADRACE_GPU_KERNELS names their file.
std::unique_ptr<Machine> make_gpu();

}  // namespace headrace::gpu::testing
