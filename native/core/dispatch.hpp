// Which kernels to call, by the instruction set in use.
#pragma once

#include <array>
#include <cstddef>

#include "headrace/cpu.hpp"
#include "kernels/kernels.hpp"

namespace headrace {

// A table for each level: `TABLE(level)` initialises it with kernels of the namespace
// kernels::level. Where a level has none of its own, that is the one of a level below.
#ifdef HEADRACE_X86_KERNELS
namespace kernels {
namespace sse42 {
using namespace scalar;
}
namespace avx2 {
using namespace sse42;
}
namespace avx512 {
using namespace avx2;
}
}  // namespace kernels
#define HEADRACE_KERNEL_TABLES(TABLE)                         \
  {                                                           \
    {                                                         \
      TABLE(scalar), TABLE(sse42), TABLE(avx2), TABLE(avx512) \
    }                                                         \
  }
template <typename Table>
using KernelTables = std::array<Table, 4>;
#else
#define HEADRACE_KERNEL_TABLES(TABLE) \
  {                                   \
    {                                 \
      TABLE(scalar)                   \
    }                                 \
  }
template <typename Table>
using KernelTables = std::array<Table, 1>;
#endif

template <typename Table, std::size_t kLevels>
[[nodiscard]] const Table& in_use(const std::array<Table, kLevels>& tables) noexcept {
  return tables[static_cast<std::size_t>(simd_level())];
}

}  // namespace headrace
