#include "headrace/jpeg/tile_index.hpp"

#include <algorithm>
#include <memory>
#include <new>

#include "core/jpeg/codes.hpp"
#include "core/jpeg/markers.hpp"
#include "core/jpeg/scan.hpp"
#include "core/jpeg/segment.hpp"
#include "headrace/checksum.hpp"

namespace headrace {
namespace {

// The scan from its start, one restart interval after the other.
class ScanWalk {
 public:
  ScanWalk(ByteSpan data, const BaselineJpeg& jpeg, ScanMemory& memory) noexcept
      : data_(data), jpeg_(jpeg), memory_(memory), at_(jpeg.scan_begin) {}

  // Throws std::bad_alloc.
  Status run(std::size_t rows, TileIndex& out);

 private:
  Status open_segment();
  Status next_segment();
  Status read_mcu() noexcept;
  [[nodiscard]] std::size_t position() noexcept;
  [[nodiscard]] Status failure(Code code, std::string_view what) noexcept;

  ByteSpan data_;
  const BaselineJpeg& jpeg_;
  ScanMemory& memory_;
  std::size_t at_;  // the next segment, or the marker before it
  std::size_t segment_begin_ = 0;
  std::size_t segment_size_ = 0;  // without stuffing
  std::size_t removed_before_ = 0;
  std::size_t left_ = 0;  // MCUs until the next restart
  unsigned restarts_ = 0;
  BitReader reader_{kNothing};
  std::array<int, kMaxBaselineComponents> predictors_{};

  static constexpr std::uint8_t kNothing[16] = {};
};

Status ScanWalk::failure(Code code, std::string_view what) noexcept {
  return Status(code, Detail("JPEG scan: ") << what,
                static_cast<std::int64_t>(std::min(position() / 8, data_.size())));
}

// In bits of the file. Positions only grow within a segment.
std::size_t ScanWalk::position() noexcept {
  const std::size_t bits = reader_.position();
  const auto& removed = memory_.removed;
  while (removed_before_ < removed.size() && removed[removed_before_] <= bits / 8) {
    ++removed_before_;
  }
  return (segment_begin_ + removed_before_) * 8 + bits;
}

Status ScanWalk::open_segment() {
  memory_.removed.clear();
  removed_before_ = 0;
  segment_begin_ = at_;
  segment_size_ = 0;
  at_ += destuff(data_.subspan(at_), memory_.bytes, segment_size_, &memory_.removed);
  reader_ = BitReader(memory_.bytes.data());
  predictors_ = {};
  left_ = jpeg_.restart_interval;
  return {};
}

Status ScanWalk::next_segment() {
  if ((reader_.position() + 7) / 8 != segment_size_) {
    return failure(Code::unsupported, "bytes that belong to nothing before a restart marker");
  }
  while (at_ + 2 < data_.size() && byte_at(data_, at_ + 1) == 0xFF) ++at_;  // fill bytes
  if (!is_inside(at_, 2, data_.size()) ||
      byte_at(data_, at_ + 1) != marker::kRst0 + restarts_ % 8) {
    return failure(Code::corrupt, "a restart marker is missing");
  }
  at_ += 2;
  ++restarts_;
  return open_segment();
}

Status ScanWalk::read_mcu() noexcept {
  for (std::size_t c = 0; c < jpeg_.components; ++c) {
    const BaselineComponent& component = jpeg_.component[c];
    for (std::size_t b = 0; b < component.blocks; ++b) {
      int difference = 0;
      if (!read_dc(reader_, memory_.tables.dc[component.dc_table], difference) ||
          !skip_ac(reader_, memory_.tables.ac[component.ac_table])) {
        return failure(Code::corrupt, "a code that does not exist");
      }
      predictors_[c] += difference;
      if (predictors_[c] < -kMaxPredictor || predictors_[c] > kMaxPredictor) {
        return failure(Code::unsupported, "a coefficient is out of range");
      }
    }
  }
  if (reader_.position() > segment_size_ * 8) {
    return failure(Code::truncated, "ends too early");
  }
  return {};
}

Status ScanWalk::run(std::size_t rows, TileIndex& out) {
  out.positions.clear();
  out.predictors.clear();
  if (Status status = open_segment(); !status.is_ok()) return status;
  for (std::size_t y = 0; y < rows; ++y) {
    for (std::size_t x = 0; x < jpeg_.mcu_columns; ++x) {
      if (jpeg_.restart_interval != 0 && left_ == 0) {
        if (Status status = next_segment(); !status.is_ok()) return status;
      }
      if (x % out.info.tile == 0) {
        out.positions.push_back(static_cast<std::uint32_t>(position()));
        out.predictors.push_back({static_cast<std::int16_t>(predictors_[0]),
                                  static_cast<std::int16_t>(predictors_[1]),
                                  static_cast<std::int16_t>(predictors_[2])});
      }
      if (Status status = read_mcu(); !status.is_ok()) return status;
      --left_;
    }
  }
  out.positions.push_back(static_cast<std::uint32_t>(position()));
  out.rows = rows;
  return {};
}

}  // namespace

Status make_tile_index_rows(ByteSpan data, const BaselineJpeg& jpeg, unsigned tile,
                            std::size_t rows, ScanMemory& memory, TileIndex& out) noexcept {
  if (data.size() > kMaxIndexedJpegSize) {
    return Status(Code::unsupported, "JPEG of more than 512 MiB");
  }
  out.info = {.jpeg_size = static_cast<std::uint32_t>(data.size()),
              .jpeg_crc32c = 0,
              .width = static_cast<std::uint32_t>(jpeg.shape.width),
              .height = static_cast<std::uint32_t>(jpeg.shape.height),
              .tile = tile,
              .components = static_cast<std::uint32_t>(jpeg.components),
              .h = static_cast<std::uint32_t>(jpeg.h),
              .v = static_cast<std::uint32_t>(jpeg.v),
              .scan_begin = static_cast<std::uint32_t>(jpeg.scan_begin),
              .rows = jpeg.mcu_rows,
              .columns = (jpeg.mcu_columns + tile - 1) / tile};
  try {
    return ScanWalk(data, jpeg, memory).run(std::min(rows, jpeg.mcu_rows), out);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the scan of a JPEG");
  }
}

Status locate_tile_indices(std::span<const std::uint64_t> offsets, std::uint64_t packed_size,
                           std::span<const std::int64_t> numbers, std::span<std::uint64_t> begins,
                           std::span<std::uint64_t> sizes) noexcept {
  if (begins.size() != numbers.size() || sizes.size() != numbers.size()) {
    return Status(Code::invalid_argument, "as many places as numbers are needed");
  }
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const auto number = static_cast<std::uint64_t>(numbers[i]);
    if (number >= offsets.size() || number + 1 >= offsets.size()) {
      return Status(Code::out_of_bounds, "there is no such tile index", i);
    }
    const std::uint64_t begin = offsets[number], end = offsets[number + 1];
    const bool is_right = begin <= end && end <= packed_size;
    begins[i] = is_right ? begin : 0;
    sizes[i] = is_right ? end - begin : 0;
  }
  return {};
}

Status make_tile_index(ByteSpan jpeg, unsigned tile, TileIndex& out) noexcept {
  if (tile == 0 || tile > kMaxTile) {
    return Status(Code::invalid_argument, Detail("tile must be 1 to ")
                                              << std::uint64_t{kMaxTile} << ", got "
                                              << std::uint64_t{tile});
  }
  BaselineJpeg header;
  if (Status status = read_baseline(jpeg, header); !status.is_ok()) return status;
  const std::unique_ptr<ScanMemory> memory(new (std::nothrow) ScanMemory);
  if (memory == nullptr) return Status(Code::out_of_memory, "no memory for the scan of a JPEG");
  fill_code_tables(header, memory->tables);
  Status status = make_tile_index_rows(jpeg, header, tile, header.mcu_rows, *memory, out);
  if (status.is_ok()) out.info.jpeg_crc32c = crc32c(jpeg);
  return status;
}

Status scan_does_not_fit() noexcept {
  return Status(Code::corrupt, "JPEG scan: does not fit its tile index");
}

Status check_tile_index_fits(const TileIndexInfo& info, const BaselineJpeg& jpeg) noexcept {
  const bool fits = info.width == jpeg.shape.width && info.height == jpeg.shape.height &&
                    info.components == jpeg.components && info.h == jpeg.h && info.v == jpeg.v &&
                    info.scan_begin == jpeg.scan_begin;
  return fits ? Status() : Status(Code::corrupt, "the tile index does not fit the JPEG's header");
}

Status check_tile_index_belongs(const TileIndexInfo& info, ByteSpan jpeg,
                                std::uint32_t crc32c) noexcept {
  if (info.jpeg_size == jpeg.size() && info.jpeg_crc32c == crc32c) return {};
  return Status(Code::corrupt, Detail("the tile index belongs to another JPEG: ")
                                   << std::uint64_t{info.jpeg_size} << " bytes with checksum "
                                   << Hex32{info.jpeg_crc32c} << ", not " << jpeg.size()
                                   << " bytes with " << Hex32{crc32c});
}

}  // namespace headrace
