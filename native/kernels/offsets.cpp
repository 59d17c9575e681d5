// Tables of offsets in the order of files. A plain loop: the compiler makes vectors of it.
#include "kernels/kernels.hpp"

namespace headrace::kernels::HEADRACE_KERNEL_LEVEL {
namespace {

inline uint64_t load(const uint8_t* from) {
  uint64_t value;
  __builtin_memcpy(&value, from, sizeof value);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
  value = __builtin_bswap64(value);
#endif
  return value;
}

}  // namespace

uint64_t offset_signs(uint64_t before, const uint8_t* table, size_t count) noexcept {
  if (count == 0) return before;
  uint64_t signs = before | load(table) | (load(table) - before);
  for (size_t i = 1; i < count; ++i) {
    const uint64_t offset = load(table + 8 * i);
    signs |= offset | (offset - load(table + 8 * (i - 1)));
  }
  return signs;
}

}  // namespace headrace::kernels::HEADRACE_KERNEL_LEVEL
