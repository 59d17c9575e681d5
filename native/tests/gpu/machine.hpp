// Where the tests run kernels: a device on the CPU, and a GPU if there is one.
#pragma once

#include <atomic>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/stages.hpp"

namespace headrace::gpu::testing {

// What a device is asked for.
enum class DeviceCall {
  allocate,
  allocate_pinned,
  pin,
  make_stream,
  copy_in,
  copy_out,
  clear,
  launch,
  wait
};

// A device on the CPU. As on a GPU, nothing of what is handed to a stream is done before somebody
// waits for it, fresh memory holds what nobody expects, and what one device has pinned is pinned
// for all. Kernels run on fibres (gpu/grid.hpp).
class CpuDevice final : public Device {
 public:
  ~CpuDevice() override;  // expects that all was given back

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

  // From now on, the n-th call of this kind fails (0: the next one), and if it is for good all
  // calls after it.
  void fail(DeviceCall call, std::size_t n, Code code, bool is_for_good = false);
  // True once it has.
  [[nodiscard]] bool has_failed() const;
  // From now on launches do nothing.
  void leave_out_kernels();
  // Memory that the device has.
  void set_total(std::size_t bytes);
  [[nodiscard]] std::size_t used() const;
  [[nodiscard]] std::size_t most_streams() const;
  [[nodiscard]] bool has_launched(std::string_view kernel) const;

 private:
  struct CpuStream;
  Status count_call(DeviceCall call) noexcept;

  mutable std::mutex mutex_;  // of what follows
  std::map<DevicePointer, std::unique_ptr<std::byte[]>> device_memory_;
  std::map<DevicePointer, std::size_t> sizes_;
  std::map<const std::byte*, std::unique_ptr<std::byte[]>> pinned_;
  std::size_t pins_ = 0;  // of memory that was there already
  std::set<std::string, std::less<>> launched_;
  std::size_t streams_ = 0, most_streams_ = 0;
  std::size_t used_ = 0, total_ = std::size_t{1} << 40;
  bool has_kernels_ = true;
  bool is_failing_ = false, is_for_good_ = false, has_failed_ = false;
  DeviceCall failing_{};
  std::size_t calls_left_ = 0;
  Code code_ = Code::ok;
};

// Memory and launches on a device, for tests of kernels.
class Machine final : Launcher {
 public:
  explicit Machine(std::unique_ptr<Device> device);
  ~Machine() override;

  // Memory of the device with these bytes, or zero; there until the machine is gone.
  DevicePointer put(ByteSpan bytes);
  DevicePointer make(std::size_t size);
  void get(DevicePointer from, MutableByteSpan bytes);
  Launcher& launcher() { return *this; }
  Status launch(const Launch& launch, void** arguments) noexcept override;

 private:
  std::unique_ptr<Device> device_;
  DeviceScope scope_;
  Device::Stream* stream_ = nullptr;
  std::vector<DevicePointer> memory_;
};

// None without a GPU, or without kernels: the variable HEADRACE_GPU_KERNELS names their file.
std::unique_ptr<Device> open_gpu();

std::unique_ptr<Machine> make_cpu();
std::unique_ptr<Machine> make_gpu();  // or none

}  // namespace headrace::gpu::testing
