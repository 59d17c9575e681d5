#include "headrace/formats/ffr.hpp"

#include <algorithm>
#include <cstring>
#include <new>

#include "headrace/checksum.hpp"
#include "headrace/cpu.hpp"
#include "kernels/kernels.hpp"

namespace headrace {
namespace {

constexpr std::size_t kEntrySize = 8;
constexpr std::uint64_t kFixedSize = 12;
constexpr std::uint64_t kSampleSize = 12;  // in both tables together
// So much is looked at without a branch, and stays in the cache meanwhile; only a block with a bad
// offset is looked at again.
constexpr std::size_t kBlockSize = 16384;

using Signs = std::uint64_t (*)(std::uint64_t, const std::uint8_t*, std::size_t) noexcept;

Signs signs_kernel() noexcept {
#ifdef HEADRACE_X86_KERNELS
  if (simd_level() >= SimdLevel::avx512) return kernels::avx512::offset_signs;
  if (simd_level() >= SimdLevel::avx2) return kernels::avx2::offset_signs;
#endif
  return kernels::scalar::offset_signs;
}

// Takes a table of offsets block by block.
class OrderCheck {
 public:
  OrderCheck(std::uint64_t first, std::uint64_t end) noexcept : before_(first), end_(end) {}

  void add(ByteSpan block) noexcept {
    add(block, signs_(before_, bytes_of(block), block.size() / kEntrySize));
  }

  // The same; gives the checksum of all before the block and of the block.
  [[nodiscard]] std::uint32_t add_with_checksum(ByteSpan block, std::uint32_t checksum) noexcept {
#ifdef HEADRACE_X86_KERNELS
    if (is_one_go_) {
      std::uint64_t signs = 0;
      checksum = ~kernels::avx512::crc32_offsets(~checksum, before_, bytes_of(block),
                                                 block.size() / kEntrySize, &signs);
      add(block, signs);
      return checksum;
    }
#endif
    checksum = crc32(block, checksum);
    add(block);
    return checksum;
  }

  [[nodiscard]] std::int64_t bad_offset() const noexcept { return bad_; }

 private:
  static const std::uint8_t* bytes_of(ByteSpan block) noexcept {
    return reinterpret_cast<const std::uint8_t*>(block.data());
  }

  void add(ByteSpan block, std::uint64_t signs) noexcept {
    const std::size_t count = block.size() / kEntrySize;
    const std::uint64_t last = load_u64_le(block.data() + kEntrySize * (count - 1));
    // Numbers that are negative as i64 are looked at again, too; what counts is what that finds.
    const bool is_doubtful = last > end_ || signs >> 63 != 0;
    if (bad_ == kNoBadOffset && is_doubtful) {
      find_bad(block.data(), count);
    }
    before_ = last;
    done_ += count;
  }

  void find_bad(const std::byte* at, std::size_t count) noexcept {
    for (std::size_t i = 0; i < count; ++i) {
      const std::uint64_t offset = load_u64_le(at + kEntrySize * i);
      if (offset < before_ || offset > end_) {
        bad_ = static_cast<std::int64_t>(done_ + i);
        return;
      }
      before_ = offset;
    }
  }

  std::uint64_t before_;
  std::uint64_t end_;
  std::size_t done_ = 0;
  std::int64_t bad_ = kNoBadOffset;
  Signs signs_ = signs_kernel();
#ifdef HEADRACE_X86_KERNELS
  bool is_one_go_ = simd_level() >= SimdLevel::avx512;
#endif
};

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
  OrderCheck check(first, end);
  for (std::size_t start = 0; start < table.size(); start += kBlockSize) {
    check.add(table.subspan(start, std::min(kBlockSize, table.size() - start)));
  }
  return check.bad_offset();
}

Result<FfrHeaderCheck> check_ffr_header(ByteSpan header, std::uint64_t end) noexcept {
  if (header.size() < kFixedSize || (header.size() - kFixedSize) % kSampleSize != 0) {
    return Status(Code::invalid_argument, Detail("no header has ") << header.size() << " bytes");
  }
  const std::size_t n = (header.size() - kFixedSize) / kSampleSize;
  const std::size_t table_at = kFixedSize + 4 * n;
  std::uint32_t checksum = crc32(header.subspan(4, table_at - 4));
  OrderCheck check(header.size(), end);
  for (std::size_t start = table_at; start < header.size(); start += kBlockSize) {
    const ByteSpan block = header.subspan(start, std::min(kBlockSize, header.size() - start));
    checksum = check.add_with_checksum(block, checksum);
  }
  return FfrHeaderCheck{checksum, check.bad_offset()};
}

}  // namespace headrace
