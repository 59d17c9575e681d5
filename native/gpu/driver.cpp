#include "gpu/driver.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <new>
#include <string>
#include <string_view>

namespace headrace::gpu {
namespace {

using Result32 = int;  // CUresult
constexpr Result32 kOutOfMemory = 2;
// The driver cannot run the kernels: they are of a later CUDA than it knows, or there are none for
// this GPU. CUDA_ERROR_INVALID_IMAGE, NO_BINARY_FOR_GPU, INVALID_PTX, JIT_COMPILER_NOT_FOUND,
// UNSUPPORTED_PTX_VERSION, JIT_COMPILATION_DISABLED.
constexpr std::array<Result32, 6> kCannotRunKernels = {200, 209, 218, 221, 222, 223};
constexpr int kMaxDynamicSharedBytes = 8;  // CU_FUNC_ATTRIBUTE_...
constexpr int kSharedCarveout = 9;         // in per cent of what a multiprocessor has; a wish
constexpr unsigned kPortable = 1;          // CU_MEMHOSTALLOC_PORTABLE, CU_MEMHOSTREGISTER_PORTABLE
constexpr unsigned kReadOnly = 8;          // CU_MEMHOSTREGISTER_READ_ONLY
constexpr int kMemoryType = 2;             // CU_POINTER_ATTRIBUTE_...
constexpr int kDeviceAddress = 3;
constexpr int kRangeStart = 11;
constexpr int kRangeSize = 12;
constexpr unsigned kHostMemory = 1;         // CU_MEMORYTYPE_HOST
constexpr unsigned kNonBlockingStream = 1;  // CU_STREAM_NON_BLOCKING
constexpr unsigned kSleepingEvent = 1 | 2;  // CU_EVENT_BLOCKING_SYNC, CU_EVENT_DISABLE_TIMING
constexpr std::size_t kUsualSharedBytes = 48 << 10;

// Those of the driver that are used, with its types as plain ones.
struct DriverFunctions {
  Result32 (*init)(unsigned);
  Result32 (*get_device)(int*, int);
  Result32 (*count_devices)(int*);
  Result32 (*retain_context)(void**, int);
  Result32 (*release_context)(int);
  Result32 (*push_context)(void*);
  Result32 (*pop_context)(void**);
  Result32 (*load_module)(void**, const void*);
  Result32 (*unload_module)(void*);
  Result32 (*get_function)(void**, void*, const char*);
  Result32 (*set_function)(void*, int, int);
  Result32 (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                     void*, void**, void**);
  Result32 (*allocate)(DevicePointer*, std::size_t);
  Result32 (*free)(DevicePointer);
  Result32 (*allocate_host)(void**, std::size_t, unsigned);
  Result32 (*free_host)(void*);
  Result32 (*pin)(void*, std::size_t, unsigned);
  Result32 (*unpin)(void*);
  Result32 (*ask_pointer)(unsigned, int*, void**, DevicePointer);
  Result32 (*copy_in)(DevicePointer, const void*, std::size_t, void*);
  Result32 (*copy_out)(void*, DevicePointer, std::size_t, void*);
  Result32 (*fill)(DevicePointer, unsigned char, std::size_t, void*);
  Result32 (*make_stream)(void**, unsigned);
  Result32 (*destroy_stream)(void*);
  Result32 (*make_event)(void**, unsigned);
  Result32 (*destroy_event)(void*);
  Result32 (*record_event)(void*, void*);
  Result32 (*wait_event)(void*);
  Result32 (*memory_info)(std::size_t*, std::size_t*);
  Result32 (*error_text)(Result32, const char**);
};

template <typename Function>
bool find(void* library, const char* name, Function& function) noexcept {
  void* const found = dlsym(library, name);
  static_assert(sizeof found == sizeof function);
  function = reinterpret_cast<Function>(found);
  return found != nullptr;
}

bool find_all(void* library, DriverFunctions& f) noexcept {
  return find(library, "cuInit", f.init) && find(library, "cuDeviceGet", f.get_device) &&
         find(library, "cuDeviceGetCount", f.count_devices) &&
         find(library, "cuDevicePrimaryCtxRetain", f.retain_context) &&
         find(library, "cuDevicePrimaryCtxRelease_v2", f.release_context) &&
         find(library, "cuCtxPushCurrent_v2", f.push_context) &&
         find(library, "cuCtxPopCurrent_v2", f.pop_context) &&
         find(library, "cuModuleLoadData", f.load_module) &&
         find(library, "cuModuleUnload", f.unload_module) &&
         find(library, "cuModuleGetFunction", f.get_function) &&
         find(library, "cuFuncSetAttribute", f.set_function) &&
         find(library, "cuLaunchKernel", f.launch) && find(library, "cuMemAlloc_v2", f.allocate) &&
         find(library, "cuMemFree_v2", f.free) &&
         find(library, "cuMemHostAlloc", f.allocate_host) &&
         find(library, "cuMemFreeHost", f.free_host) &&
         find(library, "cuMemcpyHtoDAsync_v2", f.copy_in) &&
         find(library, "cuMemcpyDtoHAsync_v2", f.copy_out) &&
         find(library, "cuMemsetD8Async", f.fill) &&
         find(library, "cuStreamCreate", f.make_stream) &&
         find(library, "cuStreamDestroy_v2", f.destroy_stream) &&
         find(library, "cuEventCreate", f.make_event) &&
         find(library, "cuEventDestroy_v2", f.destroy_event) &&
         find(library, "cuEventRecord", f.record_event) &&
         find(library, "cuEventSynchronize", f.wait_event) &&
         find(library, "cuMemHostRegister_v2", f.pin) &&
         find(library, "cuMemHostUnregister", f.unpin) &&
         find(library, "cuPointerGetAttributes", f.ask_pointer) &&
         find(library, "cuMemGetInfo_v2", f.memory_info) &&
         find(library, "cuGetErrorString", f.error_text);
}

struct Library {
  DriverFunctions functions;
  pid_t process;  // that the driver works in: a forked one cannot use it
};

// Opened once and never closed: the driver does not like that.
const Library* library() noexcept {
  static const Library* const found = []() -> const Library* {
    void* const handle = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL);
    static Library all{{}, getpid()};
    const bool is_complete = handle != nullptr && find_all(handle, all.functions);
    return is_complete && all.functions.init(0) == 0 ? &all : nullptr;
  }();
  return found;
}

std::string_view error_text(const DriverFunctions& f, Result32 result) noexcept {
  const char* text = nullptr;
  return f.error_text(result, &text) != 0 || text == nullptr ? "an unknown error" : text;
}

Status failed(const DriverFunctions& f, Result32 result, std::string_view what) noexcept {
  const Code code = result == kOutOfMemory ? Code::out_of_memory : Code::io_error;
  return Status(code, Detail("the GPU's driver says: ")
                          << error_text(f, result) << " (" << what << ")");
}

// Waiting for a stream uses up the CPU where others have asked the driver to be quick; waiting for
// an event of this kind never does.
struct DriverStream final : Device::Stream {
  void* stream = nullptr;
  void* event = nullptr;
};

void* handle_of(Device::Stream* stream) noexcept {
  return static_cast<DriverStream*>(stream)->stream;
}

}  // namespace

struct Driver::State {
  explicit State(const DriverFunctions& functions) noexcept : f(functions) {}

  const DriverFunctions& f;
  int device = 0;
  void* context = nullptr;
  void* module = nullptr;
  std::mutex mutex;  // of `kernels`
  std::map<std::string, void*, std::less<>> kernels;
};

Driver::Driver(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

Result<std::unique_ptr<Driver>> Driver::open(int device, ByteSpan kernels) noexcept {
  if (kernels.empty()) return Status(Code::unsupported, "this build has no kernels for GPUs");
  const Library* const opened = library();
  if (opened == nullptr) {
    return Status(Code::unsupported,
                  "no GPU of NVIDIA: its driver (libcuda.so.1) cannot be loaded");
  }
  if (opened->process != getpid()) {
    return Status(Code::unsupported,
                  "the GPU was in use when this process was forked, and cannot be used in it: "
                  "start the process by 'spawn', or use the GPU after the fork only");
  }
  const DriverFunctions& f = opened->functions;
  int count = 0;
  if (f.count_devices(&count) != 0 || device < 0 || device >= count) {
    return Status(Code::unsupported, Detail("there is no GPU ")
                                         << static_cast<std::uint64_t>(std::max(device, 0))
                                         << "; the driver finds "
                                         << static_cast<std::uint64_t>(count));
  }
  try {
    std::unique_ptr<Driver> driver(new Driver(std::make_unique<State>(f)));
    State& state = *driver->state_;
    Result32 result = f.get_device(&state.device, device);
    if (result == 0) result = f.retain_context(&state.context, state.device);
    if (result != 0) return failed(f, result, "opening the device");
    const DeviceScope scope(*driver);
    if (!scope.status().is_ok()) return scope.status();
    result = f.load_module(&state.module, kernels.data());
    if (std::ranges::find(kCannotRunKernels, result) != kCannotRunKernels.end()) {
      return Status(
          Code::unsupported,
          Detail("the kernels were not built for this kind of GPU, or by a later CUDA than "
                 "its driver knows (")
              << error_text(f, result) << ")");
    }
    if (result != 0) return failed(f, result, "loading the kernels");
    return driver;
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the GPU's driver");
  }
}

Driver::~Driver() {
  if (state_->context == nullptr) return;
  {
    const DeviceScope scope(*this);
    if (scope.status().is_ok() && state_->module != nullptr) {
      state_->f.unload_module(state_->module);
    }
  }
  state_->f.release_context(state_->device);
}

Status Driver::enter() noexcept {
  const Result32 result = state_->f.push_context(state_->context);
  return result == 0 ? Status() : failed(state_->f, result, "the device's context");
}

void Driver::leave() noexcept {
  void* context = nullptr;
  state_->f.pop_context(&context);
}

Result<DevicePointer> Driver::allocate(std::size_t size) noexcept {
  DevicePointer memory = 0;
  const Result32 result = state_->f.allocate(&memory, size);
  if (result != 0) return failed(state_->f, result, "memory of the device");
  return memory;
}

void Driver::free(DevicePointer memory) noexcept {
  if (memory != 0) state_->f.free(memory);
}

Result<MutableByteSpan> Driver::allocate_pinned(std::size_t size) noexcept {
  void* memory = nullptr;
  const Result32 result = state_->f.allocate_host(&memory, size, kPortable);
  if (result != 0) return failed(state_->f, result, "pinned memory");
  return MutableByteSpan(static_cast<std::byte*>(memory), size);
}

void Driver::free_pinned(MutableByteSpan memory) noexcept {
  if (memory.data() != nullptr) state_->f.free_host(memory.data());
}

Status Driver::pin(ByteSpan memory) noexcept {
  auto* const first = const_cast<std::byte*>(memory.data());
  const Result32 result = state_->f.pin(first, memory.size(), kPortable | kReadOnly);
  if (result == 0 && pinned_bytes(memory) == memory.size()) return {};
  if (result == 0) {
    state_->f.unpin(first);
    return Status(Code::unsupported, "the GPU has other addresses for memory that is pinned");
  }
  return Status(Code::unsupported, Detail("the GPU's driver does not pin this memory: ")
                                       << error_text(state_->f, result));
}

void Driver::unpin(ByteSpan memory) noexcept {
  state_->f.unpin(const_cast<std::byte*>(memory.data()));
}

// Of memory that the driver does not know, all is 0.
std::size_t Driver::pinned_bytes(ByteSpan memory) noexcept {
  const auto first = reinterpret_cast<DevicePointer>(memory.data());
  unsigned type = 0;
  DevicePointer address = 0, begin = 0;
  std::size_t size = 0;
  std::array<int, 4> names{kMemoryType, kDeviceAddress, kRangeStart, kRangeSize};
  std::array<void*, 4> values{&type, &address, &begin, &size};
  const Result32 result = state_->f.ask_pointer(4, names.data(), values.data(), first);
  const bool is_pinned = result == 0 && type == kHostMemory && address == first;
  if (!is_pinned || first < begin || first - begin >= size) return 0;
  return std::min<std::size_t>(memory.size(), size - (first - begin));
}

Result<Device::Stream*> Driver::make_stream() noexcept {
  std::unique_ptr<DriverStream> made(new (std::nothrow) DriverStream);
  if (made == nullptr) return Status(Code::out_of_memory, "no memory for a stream");
  Result32 result = state_->f.make_stream(&made->stream, kNonBlockingStream);
  if (result != 0) return failed(state_->f, result, "a stream");
  result = state_->f.make_event(&made->event, kSleepingEvent);
  if (result != 0) {
    state_->f.destroy_stream(made->stream);
    return failed(state_->f, result, "an event");
  }
  return static_cast<Stream*>(made.release());
}

void Driver::destroy(Stream* stream) noexcept {
  if (stream == nullptr) return;
  const std::unique_ptr<DriverStream> own(static_cast<DriverStream*>(stream));
  state_->f.destroy_event(own->event);
  state_->f.destroy_stream(own->stream);
}

Status Driver::wait(Stream* stream) noexcept {
  const DriverStream& own = *static_cast<DriverStream*>(stream);
  Result32 result = state_->f.record_event(own.event, own.stream);
  if (result == 0) result = state_->f.wait_event(own.event);
  return result == 0 ? Status() : failed(state_->f, result, "decoding");
}

Status Driver::copy_to_device(DevicePointer to, ByteSpan from, Stream* stream) noexcept {
  if (from.empty()) return {};
  const Result32 result = state_->f.copy_in(to, from.data(), from.size(), handle_of(stream));
  return result == 0 ? Status() : failed(state_->f, result, "a copy to the device");
}

Status Driver::copy_to_host(MutableByteSpan to, DevicePointer from, Stream* stream) noexcept {
  if (to.empty()) return {};
  const Result32 result = state_->f.copy_out(to.data(), from, to.size(), handle_of(stream));
  return result == 0 ? Status() : failed(state_->f, result, "a copy from the device");
}

Status Driver::clear(DevicePointer memory, std::size_t size, Stream* stream) noexcept {
  const Result32 result = size == 0 ? 0 : state_->f.fill(memory, 0, size, handle_of(stream));
  return result == 0 ? Status() : failed(state_->f, result, "clearing memory of the device");
}

Status Driver::launch(const Launch& launch, void** arguments, Stream* stream) noexcept {
  if (launch.blocks == 0) return {};
  State& state = *state_;
  void* kernel = nullptr;
  try {
    const std::lock_guard lock(state.mutex);
    auto found = state.kernels.find(launch.kernel);
    if (found == state.kernels.end()) {
      const std::string name(launch.kernel);
      const Result32 result = state.f.get_function(&kernel, state.module, name.c_str());
      if (result != 0) return failed(state.f, result, launch.kernel);
      if (launch.prefers_shared) state.f.set_function(kernel, kSharedCarveout, 100);
      found = state.kernels.emplace(name, kernel).first;
    }
    kernel = found->second;
    if (launch.shared_bytes > kUsualSharedBytes) {
      const Result32 result = state.f.set_function(kernel, kMaxDynamicSharedBytes,
                                                   static_cast<int>(launch.shared_bytes));
      if (result != 0) return failed(state.f, result, launch.kernel);
    }
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the names of kernels");
  }
  const Result32 result = state.f.launch(kernel, launch.blocks, launch.layers, 1, launch.threads, 1,
                                         1, static_cast<unsigned>(launch.shared_bytes),
                                         handle_of(stream), arguments, nullptr);
  return result == 0 ? Status() : failed(state.f, result, launch.kernel);
}

Device::Memory Driver::memory() noexcept {
  Memory memory{0, 0};
  state_->f.memory_info(&memory.free, &memory.total);
  return memory;
}

}  // namespace headrace::gpu
