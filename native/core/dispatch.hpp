// Which kernels to call, by the instruction set in use.
#pragma once

#include <array>
#include <cstddef>

#include "kernels/kernels.hpp"
#include "penstock/cpu.hpp"

namespace penstock {

// A table for each level: `TABLE(level)` initialises the one whose kernels are those of a namespace
// of kernels.hpp. Only vectors of 256 bits and more have kernels of their own.
#ifdef PENSTOCK_X86_KERNELS
#define PENSTOCK_KERNEL_TABLES(TABLE)                          \
  {                                                            \
    {                                                          \
      TABLE(scalar), TABLE(scalar), TABLE(avx2), TABLE(avx512) \
    }                                                          \
  }
template <typename Table>
using KernelTables = std::array<Table, 4>;
#else
#define PENSTOCK_KERNEL_TABLES(TABLE) \
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

}  // namespace penstock
