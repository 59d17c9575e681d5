#include "tests/gpu/machine.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <string>
#include <vector>

#include "gpu/destuff.hpp"
#include "gpu/resample.hpp"
#include "gpu/steps.hpp"
#include "gpu/tiles.hpp"

namespace headrace::gpu::testing {
namespace {

// The arguments of a launch, as a kernel has them.
template <typename... Arguments, std::size_t... kIndices>
void call(void (*kernel)(Arguments...), void** arguments, std::index_sequence<kIndices...>) {
  kernel(*static_cast<std::remove_reference_t<Arguments>*>(arguments[kIndices])...);
}

template <auto kKernel, typename... Arguments>
void run_kernel(void (*)(Arguments...), void** arguments) {
  call(kKernel, arguments, std::index_sequence_for<Arguments...>());
}

class CpuLauncher final : public Launcher {
 public:
  Status launch(const Launch& launch, void** arguments) noexcept override {
    const auto kernel = kernels_.find(launch.kernel);
    if (kernel == kernels_.end()) return Status(Code::invalid_argument, "no such kernel");
    grid::run(launch.blocks, launch.layers, launch.threads, launch.shared_bytes,
              [&] { kernel->second(arguments); });
    return {};
  }

 private:
  template <auto kKernel>
  static void wrapped(void** arguments) {
    run_kernel<kKernel>(kKernel, arguments);
  }

  const std::map<std::string_view, void (*)(void**)> kernels_ = {
      {"destuff_pictures", wrapped<destuff_pictures>},
      {"decode_tiles", wrapped<decode_tiles>},
      {"plan_axes", wrapped<plan_axes>},
      {"fill_around", wrapped<fill_around>},
      {"resample_smooth", wrapped<resample_smooth>},
      {"resample_sharp", wrapped<resample_sharp>},
      {"apply_steps", wrapped<apply_steps>}};
};

class Cpu final : public Machine {
 public:
  DevicePointer put(ByteSpan bytes) override {
    const DevicePointer memory = make(bytes.size());
    if (!bytes.empty()) std::memcpy(reinterpret_cast<void*>(memory), bytes.data(), bytes.size());
    return memory;
  }
  DevicePointer make(std::size_t size) override {
    memory_.emplace_back(size / sizeof(std::uint64_t) + 1);
    return reinterpret_cast<DevicePointer>(memory_.back().data());
  }
  void get(DevicePointer from, MutableByteSpan bytes) override {
    std::memcpy(bytes.data(), reinterpret_cast<const void*>(from), bytes.size());
  }
  Launcher& launcher() override { return launcher_; }

 private:
  CpuLauncher launcher_;
  std::vector<std::vector<std::uint64_t>> memory_;  // aligned to 16 bytes by malloc
};

class Gpu final : public Machine, Launcher {
 public:
  explicit Gpu(std::unique_ptr<Driver> driver) : driver_(std::move(driver)), scope_(*driver_) {
    auto stream = driver_->make_stream();
    EXPECT_TRUE(stream.is_ok());
    stream_ = stream.value();
  }
  ~Gpu() override {
    EXPECT_TRUE(driver_->wait(stream_).is_ok());
    for (const DevicePointer memory : memory_) driver_->free(memory);
    driver_->destroy(stream_);
  }
  DevicePointer put(ByteSpan bytes) override {
    const DevicePointer memory = make(bytes.size());
    EXPECT_TRUE(driver_->copy_to_device(memory, bytes, stream_).is_ok());
    EXPECT_TRUE(driver_->wait(stream_).is_ok());
    return memory;
  }
  DevicePointer make(std::size_t size) override {
    auto memory = driver_->allocate(size + 16);
    EXPECT_TRUE(memory.is_ok()) << memory.status().detail();
    EXPECT_TRUE(driver_->clear(memory.value(), size + 16, stream_).is_ok());
    memory_.push_back(memory.value());
    return memory.value();
  }
  void get(DevicePointer from, MutableByteSpan bytes) override {
    EXPECT_TRUE(driver_->copy_to_host(bytes, from, stream_).is_ok());
    const Status status = driver_->wait(stream_);
    EXPECT_TRUE(status.is_ok()) << status.detail();
  }
  Launcher& launcher() override { return *this; }
  Status launch(const Launch& launch, void** arguments) noexcept override {
    return driver_->launch(launch, arguments, stream_);
  }

 private:
  std::unique_ptr<Driver> driver_;
  Driver::Scope scope_;
  Driver::Stream* stream_ = nullptr;
  std::vector<DevicePointer> memory_;
};

}  // namespace

std::unique_ptr<Machine> make_cpu() { return std::make_unique<Cpu>(); }

std::unique_ptr<Machine> make_gpu() {
  const char* const path = std::getenv("HEADRACE_GPU_KERNELS");
  if (path == nullptr) return nullptr;
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> kernels{std::istreambuf_iterator<char>(file), {}};
  auto driver = Driver::open(0, std::as_bytes(std::span(kernels)));
  EXPECT_TRUE(driver.is_ok()) << driver.status().detail();
  if (!driver.is_ok()) return nullptr;
  return std::make_unique<Gpu>(std::move(driver.value()));
}

}  // namespace headrace::gpu::testing
