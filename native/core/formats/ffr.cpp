#include "headrace/formats/ffr.hpp"

#include <algorithm>
#include <cstring>
#include <new>

namespace headrace {
namespace {

constexpr std::size_t kEntrySize = 8;
constexpr std::uint64_t kFixedSize = 12;
constexpr std::uint64_t kSampleSize = 12;  // in both tables together
// So many are looked at without a branch; only a block with a bad one is looked at again.
constexpr std::size_t kBlock = 1024;

// Negative numbers are far above any end when taken as unsigned.
bool is_block_good(const std::byte* at, std::size_t count, std::uint64_t before) noexcept {
  std::uint64_t is_bad = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::uint64_t offset = load_u64_le(at + kEntrySize * i);
    is_bad |= static_cast<std::uint64_t>(offset < before);
    before = offset;
  }
  return is_bad == 0;
}

std::uint32_t load_u32_le(const std::byte* from) noexcept {
  std::uint32_t value;
  std::memcpy(&value, from, sizeof value);
  if constexpr (std::endian::native == std::endian::big) value = __builtin_bswap32(value);
  return value;
}

struct Located {
  std::uint64_t offset;
  std::uint64_t size;
  std::uint32_t checksum;
};

Located locate_in(ByteSpan file, std::uint64_t n, std::uint64_t i) noexcept {
  const std::byte* offsets = file.data() + kFixedSize + 4 * n;
  const std::uint64_t begin = load_u64_le(offsets + kEntrySize * i);
  const std::uint64_t end =
      i + 1 < n ? load_u64_le(offsets + kEntrySize * (i + 1)) : std::uint64_t{file.size()};
  const bool is_good = begin >= kFixedSize + kSampleSize * n && begin <= end && end <= file.size();
  return {begin, is_good ? end - begin : kBadFfrSize,
          load_u32_le(file.data() + kFixedSize + 4 * i)};
}

}  // namespace

Status FfrTable::add(ByteSpan file, std::uint64_t n) noexcept {
  if (file.size() < kFixedSize || n > (file.size() - kFixedSize) / kSampleSize) {
    return Status(Code::truncated, Detail("the tables of ") << n << " samples do not fit into "
                                                            << file.size() << " bytes");
  }
  try {
    files_.reserve(files_.size() + 1);
    ends_.push_back(samples() + n);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for another file");
  }
  files_.push_back(file);
  return {};
}

Status FfrTable::locate(std::span<const std::int64_t> indices, const FfrSpans& out) const noexcept {
  for (std::size_t i = 0; i < indices.size(); ++i) {
    const auto index = static_cast<std::uint64_t>(indices[i]);  // negative: above all others
    if (index >= samples()) {
      return Status(Code::out_of_bounds, Detail("there is no such sample, there are ") << samples(),
                    static_cast<std::int64_t>(i));
    }
    const auto file = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), index) -
                                               ends_.begin());
    const std::uint64_t first = file == 0 ? 0 : ends_[file - 1];
    const Located found = locate_in(files_[file], ends_[file] - first, index - first);
    out.files[i] = static_cast<std::uint32_t>(file);
    out.offsets[i] = found.offset;
    out.sizes[i] = found.size;
    out.checksums[i] = found.checksum;
  }
  return {};
}

Result<std::int64_t> find_bad_ffr_offset(ByteSpan table, std::uint64_t first,
                                         std::uint64_t end) noexcept {
  if (table.size() % kEntrySize != 0) {
    return Status(Code::invalid_argument, Detail("a table of ")
                                              << table.size() << " bytes has no whole offsets");
  }
  const std::size_t n = table.size() / kEntrySize;
  std::uint64_t before = first;
  for (std::size_t start = 0; start < n; start += kBlock) {
    const std::size_t count = std::min(kBlock, n - start);
    const std::byte* at = table.data() + kEntrySize * start;
    const std::uint64_t last = load_u64_le(at + kEntrySize * (count - 1));
    if (last > end || !is_block_good(at, count, before)) {
      for (std::size_t i = 0; i < count; ++i) {
        const std::uint64_t offset = load_u64_le(at + kEntrySize * i);
        if (offset < before || offset > end) return static_cast<std::int64_t>(start + i);
        before = offset;
      }
    }
    before = last;
  }
  return kNoBadOffset;
}

}  // namespace headrace
