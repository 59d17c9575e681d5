// Whether this process uses the driver of NVIDIA's GPUs.
#pragma once

namespace headrace::gpu {

// True when somebody in this process, such as torch, has opened the driver. A process that has
// cannot use it in children that it forks; one that has not still can. Opens nothing.
[[nodiscard]] bool is_driver_open() noexcept;

}  // namespace headrace::gpu
