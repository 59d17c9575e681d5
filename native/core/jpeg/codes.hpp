// Huffman tables for decoding: most symbols, with their values, in one look-up.
#pragma once

#include "core/jpeg/baseline.hpp"
#include "kernels/jpeg_types.hpp"

namespace headrace {

// Tables of one image; only those that its scan uses are filled.
struct JpegCodeTables {
  std::array<kernels::JpegCodes, kJpegTableSlots> dc;
  std::array<kernels::JpegCodes, kJpegTableSlots> ac;
};

void fill_dc_codes(const HuffmanSpec& spec, kernels::JpegCodes& out) noexcept;
void fill_ac_codes(const HuffmanSpec& spec, kernels::JpegCodes& out) noexcept;
void fill_code_tables(const BaselineJpeg& jpeg, JpegCodeTables& out) noexcept;

}  // namespace headrace
