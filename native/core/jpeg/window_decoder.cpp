#include "headrace/jpeg/window_decoder.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "core/jpeg/kernels.hpp"
#include "core/jpeg/markers.hpp"
#include "core/jpeg/mcus.hpp"
#include "core/jpeg/planes.hpp"
#include "core/jpeg/scan.hpp"
#include "core/jpeg/segment.hpp"
#include "headrace/checksum.hpp"

namespace headrace {
namespace {

constexpr std::size_t kGroupRows = kBlockSide * kernels::kGroupWidth;  // of coefficients
// When there is no tile index: small enough to start near the window.
constexpr unsigned kSearchTile = 4;

// cos(k pi / 16) * sqrt(2), but 1 for the first: what the 16-bit transform leaves to its factors.
constexpr std::array<double, kBlockSide> kScales = {1.0, 1.387039845, 1.306562965, 1.175875602,
                                                    1.0, 0.785694958, 0.541196100, 0.275899379};

}  // namespace

struct JpegWindowDecoder::Memory {
  struct alignas(64) Factors {
    std::array<std::int16_t, kGroupRows> quantiser;
    std::array<std::int16_t, kGroupRows> limits;
    std::array<std::int16_t, kGroupRows> fine;
  };

  BaselineJpeg jpeg;
  TileIndex tile_index;
  ScanMemory scan;
  std::array<Factors, kMaxBaselineComponents> factors;
  std::array<std::vector<std::uint8_t>, kernels::kJpegLanes> bytes;
  alignas(64) std::array<std::int16_t, kernels::kJpegLanes * kernels::kLaneSize> coefficients{};
  JpegPlanes planes;
  McuRange mcus{};
  bool is_fast = false;

  void fill_factors() noexcept;
  Status find_entries(const IndexedJpeg& source) noexcept;
  Status decode_all_rows(ByteSpan data);
  Status decode_rows(ByteSpan data, kernels::JpegRows& rows, std::size_t first, std::size_t count);
  Status fill_lane(ByteSpan data, std::size_t row, std::vector<std::uint8_t>& bytes,
                   kernels::JpegLane& lane);
  Status decode_mcus(const kernels::JpegRows& rows, kernels::JpegRowsState& state) noexcept;
  Status check_ends(const kernels::JpegRows& rows, const kernels::JpegRowsState& state,
                    std::size_t first) const noexcept;
  Status write(const Window& window, DecodedWindow& out);

  [[nodiscard]] std::size_t first_tile() const noexcept { return mcus.left / tile_index.info.tile; }
  [[nodiscard]] std::size_t end_tile() const noexcept {
    return (mcus.right + tile_index.info.tile - 1) / tile_index.info.tile;
  }
};

namespace {

// Without stuffing and restart markers, each of which stands at the start of a byte.
Status destuff_row(ByteSpan from, std::vector<std::uint8_t>& out, std::size_t& size) {
  size = 0;
  while (!from.empty()) {
    std::size_t at = destuff(from, out, size, nullptr);
    if (at == from.size()) return {};
    while (at + 2 < from.size() && byte_at(from, at + 1) == 0xFF) ++at;  // fill bytes
    if (!is_restart_marker(byte_at(from, at + 1))) return scan_does_not_fit();
    from = from.subspan(at + 2);
  }
  return {};
}

// Never a row by itself if it can be avoided.
std::size_t rows_at_once(std::size_t left) noexcept {
  if (left == kernels::kJpegLanes + 1) return kernels::kJpegLanes - 1;
  return std::min(left, kernels::kJpegLanes);
}

Status check_supported(const BaselineJpeg& jpeg, ImageShape stated) noexcept {
  if (jpeg.shape.width != stated.width || jpeg.shape.height != stated.height) {
    return Status(Code::corrupt, Detail("JPEG is ") << jpeg.shape.width << "x" << jpeg.shape.height
                                                    << " pixels, expected " << stated.width << "x"
                                                    << stated.height);
  }
  if (jpeg.h == 2 && jpeg.shape.width < kLeastMixedWidth) {
    return Status(Code::unsupported, "JPEG: too narrow for its sampling");
  }
  return {};
}

struct Factor {
  std::int16_t quantiser;
  std::int16_t limit;
  std::int16_t fine;
};

Factor exact_factor(unsigned quantiser) noexcept {
  return {static_cast<std::int16_t>(quantiser),
          static_cast<std::int16_t>(kernels::kMaxDequantised / static_cast<int>(quantiser)), 0};
}

// Four times the product of coefficient and quantiser, by a power of two that keeps as many places
// as fit: no coefficient of a picture is above 2047 then, and one that is leaves these 16 bits.
Factor fast_factor(unsigned quantiser, std::size_t i) noexcept {
  unsigned power = 8;
  while (power * 2 <= 16 * quantiser && power < (1U << 14)) power *= 2;
  const double factor = 4.0 * quantiser * kScales[i / kBlockSide] * kScales[i % kBlockSide];
  return {static_cast<std::int16_t>(power), static_cast<std::int16_t>(32767 / power),
          static_cast<std::int16_t>(std::min(32767.0, factor * 32768.0 / power + 0.5))};
}

}  // namespace

void JpegWindowDecoder::Memory::fill_factors() noexcept {
  for (std::size_t c = 0; c < jpeg.components; ++c) {
    const Quantiser& quantiser = jpeg.quantisers[jpeg.component[c].quantiser];
    for (std::size_t i = 0; i < kBlockSize; ++i) {
      const Factor factor = is_fast ? fast_factor(quantiser[i], i) : exact_factor(quantiser[i]);
      const std::size_t at = i / kBlockSide * kernels::kGroupWidth + i % kBlockSide;
      for (std::size_t block = 0; block < kernels::kGroupBlocks; ++block) {
        factors[c].quantiser[at + kBlockSide * block] = factor.quantiser;
        factors[c].limits[at + kBlockSide * block] = factor.limit;
        factors[c].fine[at + kBlockSide * block] = factor.fine;
      }
    }
  }
}

Status JpegWindowDecoder::Memory::find_entries(const IndexedJpeg& source) noexcept {
  if (source.tile_index.empty()) {
    return make_tile_index_rows(source.bytes, jpeg, kSearchTile, mcus.bottom, scan, tile_index);
  }
  Status status = unpack_tile_index(source.tile_index, mcus.bottom, tile_index);
  if (!status.is_ok()) return status;
  const std::uint32_t crc = source.crc32c ? *source.crc32c : crc32c(source.bytes);
  status = check_tile_index_belongs(tile_index.info, source.bytes, crc);
  return status.is_ok() ? check_tile_index_fits(tile_index.info, jpeg) : status;
}

Status JpegWindowDecoder::Memory::fill_lane(ByteSpan data, std::size_t row,
                                            std::vector<std::uint8_t>& lane_bytes,
                                            kernels::JpegLane& lane) {
  const std::size_t entry = row * tile_index.info.columns + first_tile();
  const std::size_t begin = tile_index.positions[entry];
  const std::size_t end = tile_index.positions[row * tile_index.info.columns + end_tile()];
  const ByteSpan range = data.subspan(begin / 8, (end + 7) / 8 - begin / 8);
  std::size_t size = 0;
  if (Status status = destuff_row(range, lane_bytes, size); !status.is_ok()) return status;
  // What damaged codes are found to be must not depend on the picture that was here before.
  std::memset(lane_bytes.data() + size, 0, kMcuBytes);
  lane.bytes = lane_bytes.data();
  lane.end = lane_bytes.data() + size;
  lane.first_bit = begin % 8;
  std::copy_n(tile_index.predictors[entry].begin(), kMaxBaselineComponents, lane.predictors);
  const std::size_t interval = jpeg.restart_interval;
  const std::size_t number = row * jpeg.mcu_columns + first_tile() * tile_index.info.tile;
  lane.until_restart = interval == 0 ? 0 : interval - number % interval;
  return {};
}

// A row that ends at an entry point ends where the tile index says. What fills the byte before a
// restart marker is in between otherwise.
Status JpegWindowDecoder::Memory::check_ends(const kernels::JpegRows& rows,
                                             const kernels::JpegRowsState& state,
                                             std::size_t first) const noexcept {
  const bool is_at_entry =
      mcus.right == std::min(end_tile() * tile_index.info.tile, jpeg.mcu_columns);
  for (std::size_t i = 0; i < rows.lane_count; ++i) {
    const kernels::JpegLane& lane = rows.lanes[i];
    const std::size_t end =
        tile_index.positions[(first + i) * tile_index.info.columns + end_tile()];
    const auto bits = static_cast<std::size_t>(lane.end - lane.bytes) * 8;
    const std::size_t end_bit = end % 8 == 0 ? bits : bits - 8 + end % 8;
    const std::uint64_t position = jpeg_kernels().position(&rows, i, &state);
    if (position > end_bit) return scan_does_not_fit();
    if (is_at_entry && jpeg.restart_interval == 0 && position != end_bit)
      return scan_does_not_fit();
  }
  return {};
}

Status JpegWindowDecoder::Memory::decode_mcus(const kernels::JpegRows& rows,
                                              kernels::JpegRowsState& state) noexcept {
  const JpegKernels& kernels = jpeg_kernels();
  const Status wrong(Code::corrupt, "JPEG scan: a code that does not exist, or missing data");
  const std::size_t skipped = mcus.left - first_tile() * tile_index.info.tile;
  if (skipped > 0) {
    if (!kernels.read_mcus(&rows, skipped, &state)) return wrong;
    coefficients.fill(0);
  }
  const std::size_t count = mcus.right - mcus.left;
  for (std::size_t x = 0; x < count; x += kernels::kGroupBlocks) {
    if (!kernels.read_mcus(&rows, std::min(count - x, kernels::kGroupBlocks), &state)) return wrong;
    if (!(is_fast ? kernels.transform_mcus_fast : kernels.transform_mcus)(&rows, x)) {
      return Status(Code::unsupported, "JPEG scan: coefficients out of range");
    }
  }
  return {};
}

Status JpegWindowDecoder::Memory::decode_rows(ByteSpan data, kernels::JpegRows& rows,
                                              std::size_t first, std::size_t count) {
  rows.lane_count = count;
  for (std::size_t i = 0; i < count; ++i) {
    const Status status = fill_lane(data, first + i, bytes[i], rows.lanes[i]);
    if (!status.is_ok()) return status;
  }
  for (std::size_t c = 0; c < jpeg.components; ++c) {
    rows.planes[c] = planes.row_of_mcus(c, first);
  }
  kernels::JpegRowsState state;
  jpeg_kernels().start_rows(&rows, &state);
  if (Status status = decode_mcus(rows, state); !status.is_ok()) {
    coefficients.fill(0);
    return status;
  }
  return check_ends(rows, state, first);
}

Status JpegWindowDecoder::Memory::decode_all_rows(ByteSpan data) {
  // A block takes two bits at least: no memory is asked for that the data do not stand for.
  const std::size_t blocks =
      (mcus.right - mcus.left) * (mcus.bottom - mcus.top) * (jpeg.h * jpeg.v + jpeg.components - 1);
  if (blocks > data.size() * 4) return scan_does_not_fit();
  planes.reset(jpeg, mcus);
  kernels::JpegRows rows{};
  rows.components = jpeg.components;
  rows.h = jpeg.h;
  rows.v = jpeg.v;
  rows.restart_interval = jpeg.restart_interval;
  rows.coefficients = coefficients.data();
  for (std::size_t c = 0; c < jpeg.components; ++c) {
    rows.dc[c] = &scan.tables.dc[jpeg.component[c].dc_table];
    rows.ac[c] = &scan.tables.ac[jpeg.component[c].ac_table];
    rows.factors[c] = {factors[c].quantiser.data(), factors[c].limits.data(),
                       factors[c].fine.data()};
    rows.strides[c] = planes.stride(c);
  }
  for (std::size_t row = mcus.top; row < mcus.bottom;) {
    const std::size_t count = rows_at_once(mcus.bottom - row);
    if (Status status = decode_rows(data, rows, row, count); !status.is_ok()) return status;
    row += count;
  }
  return {};
}

Status JpegWindowDecoder::Memory::write(const Window& window, DecodedWindow& out) {
  const std::size_t size = JpegPlanes::size_of(window);
  if (out.memory.size() < size) out.memory.resize(size);
  planes.write_pixels(jpeg, window, reinterpret_cast<std::uint8_t*>(out.memory.data()));
  out.scale_denominator = 1;
  out.window = window;
  out.row_stride = window.width * kRgbChannels;
  out.pixels = out.memory.data();
  return {};
}

JpegWindowDecoder::JpegWindowDecoder() noexcept = default;
JpegWindowDecoder::~JpegWindowDecoder() = default;

Status JpegWindowDecoder::decode_window(const IndexedJpeg& source, ImageShape stated,
                                        const Window& window, bool is_fast) noexcept {
  if (Status status = check_window(window, stated); !status.is_ok()) return status;
  try {
    if (memory_ == nullptr) memory_.reset(new Memory);
    Memory& memory = *memory_;
    if (Status status = read_baseline(source.bytes, memory.jpeg); !status.is_ok()) return status;
    if (Status status = check_supported(memory.jpeg, stated); !status.is_ok()) return status;
    memory.is_fast = is_fast;
    fill_code_tables(memory.jpeg, memory.scan.tables);
    memory.fill_factors();
    memory.mcus = mcus_of(memory.jpeg, window);
    if (Status status = memory.find_entries(source); !status.is_ok()) return status;
    return memory.decode_all_rows(source.bytes);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for a window of a JPEG");
  }
}

Status JpegWindowDecoder::decode(const IndexedJpeg& source, ImageShape stated, const Window& window,
                                 DecodedWindow& out) noexcept {
  if (Status status = decode_window(source, stated, window, false); !status.is_ok()) return status;
  try {
    return memory_->write(window, out);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for a window of a JPEG");
  }
}

Status JpegWindowDecoder::decode_samples(const IndexedJpeg& source, ImageShape stated,
                                         const Window& window, DecodedSamples& out) noexcept {
  if (Status status = decode_window(source, stated, window, true); !status.is_ok()) return status;
  const BaselineJpeg& jpeg = memory_->jpeg;
  out.count = jpeg.components;
  out.h = jpeg.h;
  out.v = jpeg.v;
  out.is_ycc = jpeg.color_space == JpegColorSpace::ycbcr;
  for (std::size_t c = 0; c < jpeg.components; ++c) {
    out.components[c] = memory_->planes.view(jpeg, c);
  }
  return {};
}

}  // namespace headrace
