// A libcuda.so.1 without a GPU: the part of NVIDIA's driver that gpu/driver.cpp uses. Device memory
// is memory, and kernels run on the CPU (gpu/grid.hpp), when somebody waits for their stream. Tests
// of Python put it where the real one would be found, and so run everything but the GPU itself.
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iterator>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gpu/cpu_kernels.hpp"

namespace {

using headrace::gpu::testing::kKernels;

constexpr int kDone = 0, kNotReady = 3, kNoMemory = 2, kInvalid = 1, kNoKernels = 209;
constexpr int kIllegalAddress = 700;
constexpr std::size_t kAlignment = 256;
constexpr int kUnexpected = 0xA5;

using Body = std::function<void()>;
using Bind = Body (*)(void**);

struct Stream {
  std::vector<Body> work;
};

struct Event {
  Stream* stream = nullptr;
};

std::atomic<pid_t> process{0};  // that has opened it
std::atomic<std::size_t> used{0};
std::atomic<bool> has_failed{false};
std::mutex pinned_mutex;
std::map<void*, std::size_t> pinned;  // memory of the CPU
thread_local int contexts = 0;

std::size_t total_bytes() {
  const char* const text = std::getenv("FAKE_CUDA_BYTES");
  return text == nullptr ? std::size_t{1} << 34 : std::strtoull(text, nullptr, 10);
}

int queue(void* stream, Body body) {
  if (contexts == 0) return kInvalid;  // every call needs a context
  static_cast<Stream*>(stream)->work.push_back(std::move(body));
  return kDone;
}

// With its size in front.
void* take(std::size_t size) {
  const std::size_t whole = (size + 2 * kAlignment - 1) / kAlignment * kAlignment;
  auto* const memory = static_cast<std::byte*>(std::aligned_alloc(kAlignment, whole));
  if (memory == nullptr) return nullptr;
  std::memcpy(memory, &size, sizeof size);
  std::memset(memory + kAlignment, kUnexpected, size);
  return memory + kAlignment;
}

std::size_t give_back(void* memory) {
  auto* const first = static_cast<std::byte*>(memory) - kAlignment;
  std::size_t size = 0;
  std::memcpy(&size, first, sizeof size);
  std::free(first);
  return size;
}

void* at(std::uint64_t pointer) { return reinterpret_cast<void*>(pointer); }

bool is_in(const std::pair<void* const, std::size_t>& range, const void* memory) {
  const auto* const first = static_cast<const std::byte*>(range.first);
  return memory >= first && memory < first + range.second;
}

bool is_pinned(const void* memory) {
  const std::lock_guard lock(pinned_mutex);
  const auto next = pinned.upper_bound(const_cast<void*>(memory));
  return next != pinned.begin() && is_in(*std::prev(next), memory);
}

}  // namespace

extern "C" {

int cuInit(unsigned) {
  pid_t nobody = 0;
  process.compare_exchange_strong(nobody, getpid());
  return process == getpid() ? kDone : kNotReady;
}
int cuDeviceGetCount(int* count) {
  *count = 2;
  return process == getpid() ? kDone : kNotReady;
}
int cuDeviceGet(int* device, int number) {
  *device = number;
  return kDone;
}
int cuDevicePrimaryCtxRetain(void** context, int) {
  *context = &process;
  return kDone;
}
int cuDevicePrimaryCtxRelease_v2(int) { return kDone; }
int cuCtxPushCurrent_v2(void*) {
  ++contexts;
  return process == getpid() ? kDone : kNotReady;
}
int cuCtxPopCurrent_v2(void**) {
  --contexts;
  return kDone;
}
int cuModuleLoadData(void** module, const void* image) {
  *module = &process;
  return std::memcmp(image, "old", 3) == 0 ? kNoKernels : kDone;
}
int cuModuleUnload(void*) { return kDone; }
int cuModuleGetFunction(void** function, void*, const char* name) {
  const auto found = kKernels.find(name);
  if (found == kKernels.end()) return kInvalid;
  *function = reinterpret_cast<void*>(found->second);
  return kDone;
}
int cuFuncSetAttribute(void*, int, int) { return kDone; }
int cuLaunchKernel(void* function, unsigned blocks, unsigned layers, unsigned, unsigned threads,
                   unsigned, unsigned, unsigned shared_bytes, void* stream, void** arguments,
                   void**) {
  return queue(stream, [=, body = reinterpret_cast<Bind>(function)(arguments)] {
    headrace::gpu::grid::run(blocks, layers, threads, shared_bytes, body);
  });
}
int cuMemAlloc_v2(std::uint64_t* pointer, std::size_t size) {
  if (contexts == 0 || size == 0) return kInvalid;
  if (used + size > total_bytes()) return kNoMemory;
  void* const memory = take(size);
  if (memory == nullptr) return kNoMemory;
  used += size;
  *pointer = reinterpret_cast<std::uint64_t>(memory);
  return kDone;
}
int cuMemFree_v2(std::uint64_t pointer) {
  if (const char* const ms = std::getenv("FAKE_CUDA_FREE_MS")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(std::atoi(ms)));
  }
  used -= give_back(at(pointer));
  return kDone;
}
int cuMemHostAlloc(void** memory, std::size_t size, unsigned) {
  *memory = take(size);
  return *memory == nullptr ? kNoMemory : kDone;
}
int cuMemFreeHost(void* memory) {
  give_back(memory);
  return kDone;
}
int cuMemHostRegister_v2(void* memory, std::size_t size, unsigned) {
  const std::lock_guard lock(pinned_mutex);
  const auto next = pinned.lower_bound(static_cast<std::byte*>(memory) + size);
  if (next != pinned.begin() && is_in(*std::prev(next), memory)) return kInvalid;
  if (next != pinned.begin() && std::prev(next)->first >= memory) return kInvalid;
  pinned.emplace(memory, size);
  return kDone;
}
int cuMemHostUnregister(void* memory) {
  const std::lock_guard lock(pinned_mutex);
  return pinned.erase(memory) == 1 ? kDone : kInvalid;
}
int cuPointerGetAttributes(unsigned count, int* names, void** values, std::uint64_t pointer) {
  const std::lock_guard lock(pinned_mutex);
  const auto next = pinned.upper_bound(at(pointer));
  if (next == pinned.begin()) return kDone;
  const auto& [memory, size] = *std::prev(next);
  const auto first = reinterpret_cast<std::uint64_t>(memory);
  if (pointer - first >= size) return kDone;
  for (unsigned i = 0; i < count; ++i) {
    if (names[i] == 2) *static_cast<unsigned*>(values[i]) = 1;
    if (names[i] == 3) std::memcpy(values[i], &pointer, sizeof pointer);
    if (names[i] == 11) std::memcpy(values[i], &first, sizeof first);
    if (names[i] == 12) std::memcpy(values[i], &size, sizeof size);
  }
  return kDone;
}
int cuMemcpyHtoDAsync_v2(std::uint64_t to, const void* from, std::size_t size, void* stream) {
  const bool was_pinned = is_pinned(from);
  return queue(stream, [=] {
    if (was_pinned && !is_pinned(from)) has_failed = true;  // a GPU would read what is not there
    std::memcpy(at(to), from, size);
  });
}
int cuMemcpyDtoHAsync_v2(void* to, std::uint64_t from, std::size_t size, void* stream) {
  return queue(stream, [=] { std::memcpy(to, at(from), size); });
}
int cuMemsetD8Async(std::uint64_t memory, unsigned char value, std::size_t size, void* stream) {
  return queue(stream, [=] { std::memset(at(memory), value, size); });
}
int cuStreamCreate(void** stream, unsigned) {
  *stream = new Stream;
  return kDone;
}
int cuStreamDestroy_v2(void* stream) {
  delete static_cast<Stream*>(stream);
  return kDone;
}
int cuEventCreate(void** event, unsigned) {
  *event = new Event;
  return kDone;
}
int cuEventDestroy_v2(void* event) {
  delete static_cast<Event*>(event);
  return kDone;
}
int cuEventRecord(void* event, void* stream) {
  static_cast<Event*>(event)->stream = static_cast<Stream*>(stream);
  return kDone;
}
int cuEventSynchronize(void* event) {
  for (const Body& body : std::exchange(static_cast<Event*>(event)->stream->work, {})) body();
  return has_failed ? kIllegalAddress : kDone;
}
int cuMemGetInfo_v2(std::size_t* free, std::size_t* total) {
  *total = total_bytes();
  *free = *total - std::min(*total, used.load());
  return kDone;
}
int cuGetErrorString(int result, const char** text) {
  *text = result == kNoMemory ? "out of memory" : "an error of the fake driver";
  return kDone;
}

}  // extern "C"
