#include "tests/gpu/machine.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <new>
#include <string>
#include <vector>

#include "gpu/driver.hpp"
#include "tests/gpu/cpu_kernels.hpp"

namespace headrace::gpu::testing {
namespace {

constexpr std::size_t kAlignment = 256;
constexpr std::byte kUnexpected{0xA5};

// With room to align it. Throws std::bad_alloc.
std::unique_ptr<std::byte[]> make_memory(std::size_t size, std::byte*& first) {
  auto memory = std::make_unique<std::byte[]>(size + kAlignment);
  const auto address = reinterpret_cast<std::uintptr_t>(memory.get());
  first = memory.get() + (round_up(address, kAlignment) - address);
  std::memset(memory.get(), static_cast<int>(kUnexpected), size + kAlignment);
  return memory;
}

std::byte* at(DevicePointer pointer) { return reinterpret_cast<std::byte*>(pointer); }

// Memory that was there already and is pinned, by whatever device.
struct HostPins {
  std::mutex mutex;
  std::map<const std::byte*, std::size_t> sizes;
};

HostPins& host_pins() {
  static HostPins pins;
  return pins;
}

}  // namespace

struct CpuDevice::CpuStream final : Device::Stream {
  std::vector<std::function<void()>> work;

  static CpuStream& of(Stream* stream) { return *static_cast<CpuStream*>(stream); }
};

CpuDevice::~CpuDevice() {
  EXPECT_TRUE(device_memory_.empty());
  EXPECT_TRUE(pinned_.empty());
  EXPECT_EQ(pins_, 0U);
  EXPECT_EQ(streams_, 0U);
}

Status CpuDevice::count_call(DeviceCall call) noexcept {
  const std::lock_guard lock(mutex_);
  if (has_failed_ && is_for_good_) return Status(code_, "the device has failed");
  if (!is_failing_ || call != failing_ || calls_left_-- > 0) return {};
  is_failing_ = false;
  has_failed_ = true;
  return Status(code_, "the device has failed");
}

Status CpuDevice::enter() noexcept { return {}; }
void CpuDevice::leave() noexcept {}

Result<DevicePointer> CpuDevice::allocate(std::size_t size) noexcept {
  if (Status status = count_call(DeviceCall::allocate); !status.is_ok()) return status;
  const std::lock_guard lock(mutex_);
  if (size > total_ - used_) return Status(Code::out_of_memory, "no memory of the device");
  std::byte* first = nullptr;
  auto memory = make_memory(size, first);
  const auto pointer = reinterpret_cast<DevicePointer>(first);
  device_memory_[pointer] = std::move(memory);
  sizes_[pointer] = size;
  used_ += size;
  return pointer;
}

void CpuDevice::free(DevicePointer memory) noexcept {
  if (memory == 0) return;
  const std::lock_guard lock(mutex_);
  used_ -= sizes_[memory];
  sizes_.erase(memory);
  EXPECT_EQ(device_memory_.erase(memory), 1U);
}

Result<MutableByteSpan> CpuDevice::allocate_pinned(std::size_t size) noexcept {
  if (Status status = count_call(DeviceCall::allocate_pinned); !status.is_ok()) return status;
  const std::lock_guard lock(mutex_);
  std::byte* first = nullptr;
  auto memory = make_memory(size, first);
  pinned_[first] = std::move(memory);
  return MutableByteSpan(first, size);
}

void CpuDevice::free_pinned(MutableByteSpan memory) noexcept {
  if (memory.data() == nullptr) return;
  const std::lock_guard lock(mutex_);
  EXPECT_EQ(pinned_.erase(memory.data()), 1U);
}

Status CpuDevice::pin(ByteSpan memory) noexcept {
  if (Status status = count_call(DeviceCall::pin); !status.is_ok()) return status;
  HostPins& pins = host_pins();
  const std::scoped_lock lock(mutex_, pins.mutex);
  EXPECT_TRUE(pins.sizes.emplace(memory.data(), memory.size()).second);
  ++pins_;
  return {};
}

void CpuDevice::unpin(ByteSpan memory) noexcept {
  HostPins& pins = host_pins();
  const std::scoped_lock lock(mutex_, pins.mutex);
  EXPECT_EQ(pins.sizes.erase(memory.data()), 1U);
  --pins_;
}

std::size_t CpuDevice::pinned_bytes(ByteSpan memory) noexcept {
  HostPins& pins = host_pins();
  const std::lock_guard lock(pins.mutex);
  const auto found = pins.sizes.find(memory.data());
  return found == pins.sizes.end() ? 0 : std::min(memory.size(), found->second);
}

Result<Device::Stream*> CpuDevice::make_stream() noexcept {
  if (Status status = count_call(DeviceCall::make_stream); !status.is_ok()) return status;
  const std::lock_guard lock(mutex_);
  most_streams_ = std::max(most_streams_, ++streams_);
  return static_cast<Stream*>(new CpuStream);
}

void CpuDevice::destroy(Stream* stream) noexcept {
  if (stream == nullptr) return;
  EXPECT_TRUE(CpuStream::of(stream).work.empty());
  delete static_cast<CpuStream*>(stream);
  const std::lock_guard lock(mutex_);
  --streams_;
}

Status CpuDevice::copy_to_device(DevicePointer to, ByteSpan from, Stream* stream) noexcept {
  if (Status status = count_call(DeviceCall::copy_in); !status.is_ok()) return status;
  CpuStream::of(stream).work.emplace_back(
      [to, from] { std::memcpy(at(to), from.data(), from.size()); });
  return {};
}

Status CpuDevice::copy_to_host(MutableByteSpan to, DevicePointer from, Stream* stream) noexcept {
  if (Status status = count_call(DeviceCall::copy_out); !status.is_ok()) return status;
  CpuStream::of(stream).work.emplace_back(
      [to, from] { std::memcpy(to.data(), at(from), to.size()); });
  return {};
}

Status CpuDevice::clear(DevicePointer memory, std::size_t size, Stream* stream) noexcept {
  if (Status status = count_call(DeviceCall::clear); !status.is_ok()) return status;
  CpuStream::of(stream).work.emplace_back([memory, size] { std::memset(at(memory), 0, size); });
  return {};
}

Status CpuDevice::launch(const Launch& launch, void** arguments, Stream* stream) noexcept {
  if (Status status = count_call(DeviceCall::launch); !status.is_ok()) return status;
  const auto kernel = kKernels.find(launch.kernel);
  if (kernel == kKernels.end()) return Status(Code::invalid_argument, "no such kernel");
  {
    const std::lock_guard lock(mutex_);
    launched_.emplace(launch.kernel);
    if (!has_kernels_) return {};
  }
  CpuStream::of(stream).work.emplace_back([launch, body = kernel->second(arguments)] {
    grid::run(launch.blocks, launch.layers, launch.threads, launch.shared_bytes, body);
  });
  return {};
}

bool CpuDevice::has_launched(std::string_view kernel) const {
  const std::lock_guard lock(mutex_);
  return launched_.contains(kernel);
}

Status CpuDevice::wait(Stream* stream) noexcept {
  auto work = std::exchange(CpuStream::of(stream).work, {});
  if (Status status = count_call(DeviceCall::wait); !status.is_ok()) return status;
  for (const auto& step : work) step();
  return {};
}

Device::Memory CpuDevice::memory() noexcept {
  const std::lock_guard lock(mutex_);
  return {total_ - used_, total_};
}

void CpuDevice::fail(DeviceCall call, std::size_t n, Code code, bool is_for_good) {
  const std::lock_guard lock(mutex_);
  failing_ = call;
  calls_left_ = n;
  code_ = code;
  is_for_good_ = is_for_good;
  is_failing_ = true;
  has_failed_ = false;
}

bool CpuDevice::has_failed() const {
  const std::lock_guard lock(mutex_);
  return has_failed_;
}

void CpuDevice::leave_out_kernels() {
  const std::lock_guard lock(mutex_);
  has_kernels_ = false;
}

void CpuDevice::set_total(std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  total_ = bytes;
}

std::size_t CpuDevice::used() const {
  const std::lock_guard lock(mutex_);
  return used_;
}

std::size_t CpuDevice::most_streams() const {
  const std::lock_guard lock(mutex_);
  return most_streams_;
}

Machine::Machine(std::unique_ptr<Device> device) : device_(std::move(device)), scope_(*device_) {
  auto stream = device_->make_stream();
  EXPECT_TRUE(stream.is_ok());
  stream_ = stream.value();
}

Machine::~Machine() {
  EXPECT_TRUE(device_->wait(stream_).is_ok());
  for (const DevicePointer memory : memory_) device_->free(memory);
  device_->destroy(stream_);
}

DevicePointer Machine::put(ByteSpan bytes) {
  const DevicePointer memory = make(bytes.size());
  if (bytes.empty()) return memory;
  EXPECT_TRUE(device_->copy_to_device(memory, bytes, stream_).is_ok());
  EXPECT_TRUE(device_->wait(stream_).is_ok());
  return memory;
}

DevicePointer Machine::make(std::size_t size) {
  auto memory = device_->allocate(size + 16);
  EXPECT_TRUE(memory.is_ok()) << memory.status().detail();
  EXPECT_TRUE(device_->clear(memory.value(), size + 16, stream_).is_ok());
  memory_.push_back(memory.value());
  return memory.value();
}

void Machine::get(DevicePointer from, MutableByteSpan bytes) {
  EXPECT_TRUE(device_->copy_to_host(bytes, from, stream_).is_ok());
  const Status status = device_->wait(stream_);
  EXPECT_TRUE(status.is_ok()) << status.detail();
}

Status Machine::launch(const Launch& launch, void** arguments) noexcept {
  return device_->launch(launch, arguments, stream_);
}

std::unique_ptr<Machine> make_cpu() {
  return std::make_unique<Machine>(std::make_unique<CpuDevice>());
}

std::unique_ptr<Device> open_gpu() {
  const char* const path = std::getenv("HEADRACE_GPU_KERNELS");
  if (path == nullptr) return nullptr;
  std::ifstream file(path, std::ios::binary);
  const std::vector<char> kernels{std::istreambuf_iterator<char>(file), {}};
  auto driver = Driver::open(0, std::as_bytes(std::span(kernels)));
  EXPECT_TRUE(driver.is_ok()) << driver.status().detail();
  if (!driver.is_ok()) return nullptr;
  return std::move(driver.value());
}

std::unique_ptr<Machine> make_gpu() {
  auto device = open_gpu();
  return device == nullptr ? nullptr : std::make_unique<Machine>(std::move(device));
}

}  // namespace headrace::gpu::testing
