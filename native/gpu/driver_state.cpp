#include "gpu/driver_state.hpp"

#include <dlfcn.h>

namespace headrace::gpu {

bool is_driver_open() noexcept {
  void* const library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (library == nullptr) return false;
  using CountDevices = int (*)(int*);
  const auto count_devices = reinterpret_cast<CountDevices>(dlsym(library, "cuDeviceGetCount"));
  int count = 0;
  // Before cuInit, and in the child of a process that called it, this is an error.
  const bool is_open = count_devices != nullptr && count_devices(&count) == 0;
  dlclose(library);  // whoever loaded it still has it
  return is_open;
}

}  // namespace headrace::gpu
