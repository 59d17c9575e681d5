#include "core/images/load_check.hpp"

#include <cstdint>

namespace headrace {
namespace {

Status check_counts(const LoadBatch& batch) noexcept {
  const std::size_t n = batch.offsets.size();
  if (batch.sizes.size() != n || batch.modes.size() != n || batch.widths.size() != n ||
      batch.heights.size() != n || (!batch.flips.empty() && batch.flips.size() != n) ||
      (!batch.crops.empty() && (batch.crops.size() / 4 != n || batch.crops.size() % 4 != 0)) ||
      (!batch.checksums.empty() && batch.checksums.size() != n) ||
      batch.tile_index_offsets.size() != batch.tile_index_sizes.size() ||
      (!batch.tile_index_sizes.empty() && batch.tile_index_sizes.size() != n)) {
    return Status(Code::invalid_argument, "every array must have one entry for each image");
  }
  return {};
}

Result<std::size_t> slot_size_of(const LoadOptions& options) noexcept {
  if (options.shape.width == 0 || options.shape.height == 0) {
    return Status(Code::invalid_argument, "the output images are empty");
  }
  const auto size = rgb_size_bytes(options.shape);
  if (!size.is_ok()) return size.status();
  std::uint64_t bytes = 0;
  if (!checked_multiply(size.value(), size_bytes_of(options.type), bytes)) {
    return Status(Code::too_large, "an output image does not fit in memory");
  }
  return static_cast<std::size_t>(bytes);
}

Status check_table(const LoadOptions& options) noexcept {
  if (options.table.empty()) return {};
  const std::size_t value_size = size_bytes_of(options.type);
  if (options.type == OutputType::uint8 ||
      options.table.size() != kRgbChannels * 256 * value_size) {
    return Status(Code::invalid_argument,
                  "a table has 256 values of the output's type, a float, for each channel");
  }
  if (reinterpret_cast<std::uintptr_t>(options.table.data()) % value_size != 0) {
    return Status(Code::invalid_argument, "the table is not aligned to its values");
  }
  return {};
}

Status check_out(ByteSpan base, MutableByteSpan out, std::size_t count, std::size_t slot_size,
                 std::size_t alignment) noexcept {
  std::uint64_t total = 0;
  if (!checked_multiply(count, slot_size, total) || total != out.size()) {
    return Status(Code::invalid_argument, "the output does not have the size of the batch");
  }
  if (reinterpret_cast<std::uintptr_t>(out.data()) % alignment != 0) {
    return Status(Code::invalid_argument, "the output is not aligned to its values");
  }
  if (is_overlapping(base, out)) {
    return Status(Code::invalid_argument, "the output overlaps the stored images");
  }
  return {};
}

}  // namespace

Status check_load(ByteSpan base, const LoadBatch& batch, const LoadOptions& options,
                  MutableByteSpan out, std::size_t& slot_size) noexcept {
  if (Status status = check_counts(batch); !status.is_ok()) return status;
  const auto size = slot_size_of(options);
  if (!size.is_ok()) return size.status();
  slot_size = size.value();
  const std::size_t count = batch.offsets.size();
  if (Status status = check_out(base, out, count, slot_size, size_bytes_of(options.type));
      !status.is_ok()) {
    return status;
  }
  if (Status status = check_table(options); !status.is_ok()) return status;
  if (is_overlapping(options.table, out)) {
    return Status(Code::invalid_argument, "the output overlaps the table");
  }
  if (is_overlapping(batch.tile_indices, out)) {
    return Status(Code::invalid_argument, "the output overlaps the tile indices");
  }
  return check_steps(batch.steps, count, options.shape);
}

}  // namespace headrace
