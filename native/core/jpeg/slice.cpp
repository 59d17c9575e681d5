#include "headrace/jpeg/slice.hpp"

#include <memory>
#include <new>

#include "core/jpeg/markers.hpp"
#include "core/jpeg/mcus.hpp"
#include "core/jpeg/scan.hpp"
#include "core/jpeg/segment.hpp"
#include "core/jpeg/writer.hpp"
#include "headrace/checksum.hpp"

namespace headrace {
namespace {

using Predictors = std::array<int, kMaxBaselineComponents>;

struct SliceMemory {
  BaselineJpeg jpeg;
  TileIndex tile_index;
  ScanMemory scan;
  std::vector<std::uint8_t> bits;  // of the slice
  std::array<DcCodes, kJpegTableSlots> codes;
};

// Copies rows of MCUs; the first DC difference of each component in a row, and after a restart, is
// written anew: what it is a difference to is not in the slice.
class Cutter {
 public:
  Cutter(ByteSpan data, SliceMemory& memory) noexcept
      : data_(data),
        jpeg_(memory.jpeg),
        tile_index_(memory.tile_index),
        scan_(memory.scan),
        codes_(memory.codes),
        writer_(memory.bits) {}

  // From the entry `first` up to `end`, where the codes of `mcus` MCUs are. Throws std::bad_alloc.
  Status copy_row(std::size_t row, std::size_t first, std::size_t end, std::size_t mcus);
  [[nodiscard]] ByteSpan finish() noexcept { return writer_.finish(); }

 private:
  Status copy_first_mcu(BitReader& reader, Predictors& predictors, std::size_t& copied);
  Status copy_run(std::size_t at, std::size_t end, Predictors predictors);
  Status copy_run_by_mcu(std::size_t at, std::size_t mcus, Predictors& predictors);
  Status copy_row_with_restarts(std::size_t row, std::size_t first, std::size_t end,
                                std::size_t mcus);
  Status put_difference(std::size_t component, int value);
  Status pass_mcu(BitReader& reader, Predictors& predictors) noexcept;
  bool pass_block(BitReader& reader, std::size_t component, int& predictor) noexcept;

  ByteSpan data_;
  const BaselineJpeg& jpeg_;
  const TileIndex& tile_index_;
  ScanMemory& scan_;
  const std::array<DcCodes, kJpegTableSlots>& codes_;
  ScanWriter writer_;
  std::size_t size_ = 0;  // of the bytes in scan_.bytes
  Predictors written_{};  // by the slice's decoder so far
};

unsigned bits_of(int value) noexcept {
  const auto magnitude = static_cast<unsigned>(value < 0 ? -value : value);
  return magnitude == 0 ? 0 : 32 - static_cast<unsigned>(__builtin_clz(magnitude));
}

Status Cutter::put_difference(std::size_t component, int value) {
  const int difference = value - written_[component];
  const unsigned size = bits_of(difference);
  if (size > kMaxDcSize) return Status(Code::unsupported, "JPEG scan: a DC value is out of range");
  const DcCode& code = codes_[jpeg_.component[component].dc_table][size];
  writer_.reserve(64);
  writer_.put(code.code, code.length);
  const auto number = static_cast<std::uint32_t>(difference < 0 ? difference - 1 : difference);
  writer_.put(number & ((1U << size) - 1), size);
  return {};
}

bool Cutter::pass_block(BitReader& reader, std::size_t component, int& predictor) noexcept {
  int difference = 0;
  if (!read_dc(reader, scan_.tables.dc[jpeg_.component[component].dc_table], difference) ||
      !skip_ac(reader, scan_.tables.ac[jpeg_.component[component].ac_table])) {
    return false;
  }
  predictor += difference;
  return true;
}

Status Cutter::pass_mcu(BitReader& reader, Predictors& predictors) noexcept {
  for (std::size_t c = 0; c < jpeg_.components; ++c) {
    for (std::size_t b = 0; b < jpeg_.component[c].blocks; ++b) {
      if (!pass_block(reader, c, predictors[c])) return scan_does_not_fit();
    }
  }
  return reader.position() > size_ * 8 ? scan_does_not_fit() : Status();
}

Status Cutter::copy_first_mcu(BitReader& reader, Predictors& predictors, std::size_t& copied) {
  for (std::size_t c = 0; c < jpeg_.components; ++c) {
    const std::size_t before = reader.position();
    int difference = 0;
    if (!read_dc(reader, scan_.tables.dc[jpeg_.component[c].dc_table], difference) ||
        reader.position() > size_ * 8) {
      return scan_does_not_fit();
    }
    predictors[c] += difference;
    writer_.reserve(before - copied);
    writer_.copy(scan_.bytes.data(), copied, before - copied);
    if (Status status = put_difference(c, predictors[c]); !status.is_ok()) return status;
    copied = reader.position();
    if (!skip_ac(reader, scan_.tables.ac[jpeg_.component[c].ac_table])) return scan_does_not_fit();
    for (std::size_t b = 1; b < jpeg_.component[c].blocks; ++b) {
      if (!pass_block(reader, c, predictors[c])) return scan_does_not_fit();
    }
  }
  return reader.position() > size_ * 8 ? scan_does_not_fit() : Status();
}

// The bytes are in place, `end` is the last bit's end in the file; the codes after the first MCU
// are not looked at.
Status Cutter::copy_run(std::size_t at, std::size_t end, Predictors predictors) {
  BitReader reader(scan_.bytes.data(), at % 8);
  std::size_t copied = at % 8;
  if (Status status = copy_first_mcu(reader, predictors, copied); !status.is_ok()) return status;
  const std::size_t end_bit = end % 8 == 0 ? size_ * 8 : size_ * 8 - 8 + end % 8;
  if (reader.position() > end_bit) return scan_does_not_fit();
  writer_.reserve(end_bit - copied);
  writer_.copy(scan_.bytes.data(), copied, end_bit - copied);
  return {};
}

Status Cutter::copy_run_by_mcu(std::size_t at, std::size_t mcus, Predictors& predictors) {
  BitReader reader(scan_.bytes.data(), at % 8);
  std::size_t copied = at % 8;
  if (Status status = copy_first_mcu(reader, predictors, copied); !status.is_ok()) return status;
  for (std::size_t i = 1; i < mcus; ++i) {
    if (Status status = pass_mcu(reader, predictors); !status.is_ok()) return status;
  }
  writer_.reserve(reader.position() - copied);
  writer_.copy(scan_.bytes.data(), copied, reader.position() - copied);
  written_ = predictors;
  return {};
}

Status Cutter::copy_row_with_restarts(std::size_t row, std::size_t first, std::size_t end,
                                      std::size_t mcus) {
  const std::size_t entry = row * tile_index_.info.columns + first;
  std::size_t number = row * jpeg_.mcu_columns + first * tile_index_.info.tile;
  std::size_t at = tile_index_.positions[entry];
  const std::size_t end_byte =
      (tile_index_.positions[row * tile_index_.info.columns + end] + 7) / 8;
  Predictors predictors;
  std::copy_n(tile_index_.predictors[entry].begin(), predictors.size(), predictors.begin());
  while (true) {
    if (at / 8 > end_byte) return scan_does_not_fit();
    const std::size_t until = jpeg_.restart_interval - number % jpeg_.restart_interval;
    const std::size_t count = std::min(mcus, until);
    size_ = 0;
    const std::size_t taken =
        destuff(data_.subspan(at / 8, end_byte - at / 8), scan_.bytes, size_, nullptr);
    Status status = copy_run_by_mcu(at, count, predictors);
    if (!status.is_ok()) return status;
    mcus -= count;
    number += count;
    if (mcus == 0) return {};
    std::size_t next = at / 8 + taken;
    while (next + 1 < end_byte && byte_at(data_, next + 1) == 0xFF) ++next;
    if (next + 1 >= end_byte || !is_restart_marker(byte_at(data_, next + 1)))
      return scan_does_not_fit();
    at = (next + 2) * 8;
    predictors = {};
  }
}

Status Cutter::copy_row(std::size_t row, std::size_t first, std::size_t end, std::size_t mcus) {
  if (jpeg_.restart_interval != 0) return copy_row_with_restarts(row, first, end, mcus);
  const std::size_t entry = row * tile_index_.info.columns + first;
  const std::size_t last = row * tile_index_.info.columns + end;
  const std::size_t begin_bit = tile_index_.positions[entry];
  const std::size_t end_bit = tile_index_.positions[last];
  const ByteSpan bytes = data_.subspan(begin_bit / 8, (end_bit + 7) / 8 - begin_bit / 8);
  size_ = 0;
  if (destuff(bytes, scan_.bytes, size_, nullptr) != bytes.size()) return scan_does_not_fit();
  Predictors predictors;
  std::copy_n(tile_index_.predictors[entry].begin(), predictors.size(), predictors.begin());
  if (Status status = copy_run(begin_bit, end_bit, predictors); !status.is_ok()) return status;
  if (last < tile_index_.predictors.size()) {
    std::copy_n(tile_index_.predictors[last].begin(), written_.size(), written_.begin());
  }
  return {};
}

Status complete_codes(SliceMemory& memory) noexcept {
  for (std::size_t i = 0; i < memory.jpeg.components; ++i) {
    const unsigned slot = memory.jpeg.component[i].dc_table;
    const Status status = complete_dc_codes(memory.jpeg.dc[slot], memory.codes[slot]);
    if (!status.is_ok()) return status;
  }
  return {};
}

// Decoders repeat samples of narrow components instead of mixing them: a slice must not be narrow
// where the picture is not. That can only be at the picture's right edge.
std::size_t first_tile(const BaselineJpeg& jpeg, std::size_t tile, const McuRange& mcus) noexcept {
  const std::size_t first = mcus.left / tile;
  const std::size_t left = first * tile * jpeg.mcu_width();
  const bool is_narrow = jpeg.h == 2 && jpeg.shape.width - left < kLeastMixedWidth;
  return is_narrow && first > 0 ? first - 1 : first;
}

Status cut(ByteSpan data, const Window& window, SliceMemory& memory, JpegSlice& out) {
  const BaselineJpeg& jpeg = memory.jpeg;
  const TileIndexInfo& info = memory.tile_index.info;
  const McuRange mcus = mcus_of(jpeg, window);
  const std::size_t first = first_tile(jpeg, info.tile, mcus);
  const std::size_t end = (mcus.right + info.tile - 1) / info.tile;
  const std::size_t left_mcu = first * info.tile;
  const std::size_t right_mcu = std::min(end * info.tile, jpeg.mcu_columns);
  Cutter cutter(data, memory);
  for (std::size_t row = mcus.top; row < mcus.bottom; ++row) {
    const Status status = cutter.copy_row(row, first, end, right_mcu - left_mcu);
    if (!status.is_ok()) return status;
  }
  const std::size_t left = left_mcu * jpeg.mcu_width();
  const std::size_t top = mcus.top * jpeg.mcu_height();
  out.shape = {std::min(jpeg.shape.width, right_mcu * jpeg.mcu_width()) - left,
               std::min(jpeg.shape.height, mcus.bottom * jpeg.mcu_height()) - top};
  out.bytes.clear();
  append_header(jpeg, out.shape, out.bytes);
  append_scan(cutter.finish(), out.bytes);
  out.left = window.left - left;
  out.top = window.top - top;
  return {};
}

Status prepare(ByteSpan data, ByteSpan packed, const Window& window, SliceMemory& memory) noexcept {
  if (Status status = read_baseline(data, memory.jpeg); !status.is_ok()) return status;
  const BaselineJpeg& jpeg = memory.jpeg;
  if (Status status = check_window(window, jpeg.shape); !status.is_ok()) return status;
  Status status = unpack_tile_index(packed, mcus_of(jpeg, window).bottom, memory.tile_index);
  if (!status.is_ok()) return status;
  status = check_tile_index_belongs(memory.tile_index.info, data, crc32c(data));
  if (!status.is_ok()) return status;
  status = check_tile_index_fits(memory.tile_index.info, jpeg);
  if (!status.is_ok()) return status;
  fill_code_tables(jpeg, memory.scan.tables);
  return complete_codes(memory);
}

}  // namespace

Status slice_jpeg(ByteSpan jpeg, ByteSpan packed, const Window& window, JpegSlice& out) noexcept {
  try {
    const std::unique_ptr<SliceMemory> memory(new SliceMemory);  // without clearing its tables
    if (Status status = prepare(jpeg, packed, window, *memory); !status.is_ok()) return status;
    return cut(jpeg, window, *memory, out);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for a slice of a JPEG");
  }
}

}  // namespace headrace
