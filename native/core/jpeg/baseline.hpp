// The header of a JPEG that our own decoder knows: baseline, 8 bits, Huffman codes, one scan.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "headrace/bytes.hpp"
#include "headrace/image.hpp"
#include "headrace/jpeg/codec.hpp"
#include "headrace/status.hpp"

namespace headrace {

inline constexpr std::size_t kBlockSide = 8;
inline constexpr std::size_t kBlockSize = 64;
inline constexpr std::size_t kMaxBaselineComponents = 3;
inline constexpr std::size_t kJpegTableSlots = 4;
inline constexpr std::size_t kMaxMcuBlocks = 6;

// As in the file: how many codes there are of each length from 1 to 16, and their symbols.
struct HuffmanSpec {
  std::array<std::uint8_t, 16> counts{};
  std::array<std::uint8_t, 256> symbols{};
  std::size_t size = 0;
  bool is_defined = false;
};

struct BaselineComponent {
  unsigned id = 0;
  unsigned quantiser = 0;
  unsigned dc_table = 0;
  unsigned ac_table = 0;
  std::size_t blocks = 1;  // in each MCU
};

using Quantiser = std::array<std::uint16_t, kBlockSize>;  // row by row

struct BaselineJpeg {
  ImageShape shape{};
  JpegColorSpace color_space = JpegColorSpace::unknown;
  std::size_t components = 0;
  std::array<BaselineComponent, kMaxBaselineComponents> component{};
  std::size_t h = 1;  // blocks of luma in an MCU, side by side and
  std::size_t v = 1;  // above each other; all other components have one
  std::size_t mcu_columns = 0;
  std::size_t mcu_rows = 0;
  std::array<Quantiser, kJpegTableSlots> quantisers{};
  std::array<HuffmanSpec, kJpegTableSlots> dc{};
  std::array<HuffmanSpec, kJpegTableSlots> ac{};
  std::size_t restart_interval = 0;  // MCUs, 0: none
  std::size_t scan_begin = 0;        // first byte of the entropy-coded data

  [[nodiscard]] std::size_t mcu_width() const noexcept { return kBlockSide * h; }
  [[nodiscard]] std::size_t mcu_height() const noexcept { return kBlockSide * v; }
};

// Order of the coefficients in a file: the place, row by row, of each.
inline constexpr std::array<std::uint8_t, kBlockSize> kZigzagOrder = {
    0,  1,  8,  16, 9,  2,  3,  10, 17, 24, 32, 25, 18, 11, 4,  5,  12, 19, 26, 33, 40, 48,
    41, 34, 27, 20, 13, 6,  7,  14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23,
    30, 37, 44, 51, 58, 59, 52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63};

// Fails with `unsupported` for other kinds of JPEG and says which; `out` is overwritten.
Status read_baseline(ByteSpan data, BaselineJpeg& out) noexcept;

}  // namespace headrace
