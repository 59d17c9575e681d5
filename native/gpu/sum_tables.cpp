#include "gpu/sum_tables.hpp"

namespace headrace::gpu {
namespace {

// x^(8 bytes)
std::uint32_t power(std::uint32_t bytes) noexcept {
  std::uint32_t result = std::uint32_t{1} << 31, square = result >> 8;
  for (; bytes != 0; bytes >>= 1) {
    if ((bytes & 1) != 0) result = multiply_sums(result, square);
    square = multiply_sums(square, square);
  }
  return result;
}

void fill(std::uint32_t (&table)[4][256], std::uint32_t bytes) noexcept {
  const std::uint32_t factor = power(bytes);
  for (std::uint32_t i = 0; i < 4 * 256; ++i) {
    table[i / 256][i % 256] = multiply_sums(factor, i % 256 << 8 * (i / 256));
  }
}

}  // namespace

const SumTables& sum_tables() noexcept {
  static const SumTables tables = [] {
    SumTables made;
    fill(made.by_word, 4);
    fill(made.by_row, kSumRow);
    for (std::uint32_t i = 0; i < 4 * 256; ++i) {
      made.powers[i / 256][i % 256] = power(i % 256 << 8 * (i / 256));
    }
    return made;
  }();
  return tables;
}

}  // namespace headrace::gpu
