// The header of a JPEG that our own decoder knows: baseline, 8 bits, Huffman codes, one scan.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "penstock/bytes.hpp"
#include "penstock/image.hpp"
#include "penstock/jpeg.hpp"
#include "penstock/status.hpp"

namespace penstock {

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
[[nodiscard]] const std::array<std::uint8_t, kBlockSize>& zigzag_order() noexcept;

// Fails with `unsupported` for other kinds of JPEG and says which; `out` is overwritten.
Status read_baseline(ByteSpan data, BaselineJpeg& out) noexcept;

}  // namespace penstock
