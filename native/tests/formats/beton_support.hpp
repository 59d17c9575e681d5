// Builds allocation tables for tests.
#pragma once

#include <cstring>
#include <vector>

#include "headrace/formats/beton.hpp"
#include "tests/support.hpp"

namespace headrace::testing {

// Bytes of the table, shifted by `misalignment` so that no field is aligned.
inline Bytes table_bytes(const std::vector<TableRow>& rows, std::size_t misalignment) {
  Bytes bytes(misalignment + rows.size() * kTableRowSize);
  std::byte* at = bytes.data() + misalignment;
  for (const TableRow& row : rows) {
    for (const std::uint64_t value : {row.sample_id, row.ptr, row.size}) {
      for (int i = 0; i < 8; ++i) *at++ = static_cast<std::byte>(value >> (8 * i) & 0xFF);
    }
  }
  return bytes;
}

}  // namespace headrace::testing
