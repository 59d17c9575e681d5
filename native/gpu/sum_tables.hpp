// What the kernel of checksums looks up.
#pragma once

#include "gpu/sums.hpp"

namespace headrace::gpu {

[[nodiscard]] const SumTables& sum_tables() noexcept;

}  // namespace headrace::gpu
