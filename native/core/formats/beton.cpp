#include "headrace/formats/beton.hpp"

#include <algorithm>
#include <new>

namespace headrace {

AllocationTable::AllocationTable(ByteSpan data) noexcept
    : data_(data), rows_(data.size() / kTableRowSize) {}

TableRow AllocationTable::row(std::size_t index) const noexcept {
  const std::byte* at = data_.data() + index * kTableRowSize;
  return {load_u64_le(at), load_u64_le(at + 8), load_u64_le(at + 16)};
}

Status AllocationTable::build_index() const noexcept {
  if (index_ready_.load(std::memory_order_acquire)) return {};
  const std::lock_guard lock(index_mutex_);
  if (index_ready_.load(std::memory_order_relaxed)) return {};
  try {
    std::vector<IndexEntry> index;
    index.reserve(rows_);
    for (std::size_t i = 0; i < rows_; ++i) {
      const TableRow entry = row(i);
      if (entry.size > 0) index.push_back({entry.ptr, i});
    }
    const auto is_before = [](const IndexEntry& a, const IndexEntry& b) {
      return a.ptr != b.ptr ? a.ptr < b.ptr : a.row < b.row;
    };
    // A file written by one worker is in order already.
    if (!std::is_sorted(index.begin(), index.end(), is_before)) {
      std::sort(index.begin(), index.end(), is_before);
    }
    index_ = std::move(index);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory to sort the allocation table");
  }
  index_ready_.store(true, std::memory_order_release);
  return {};
}

std::uint64_t AllocationTable::search(std::uint64_t pointer) const noexcept {
  const auto found = std::lower_bound(
      index_.begin(), index_.end(), pointer,
      [](const IndexEntry& entry, std::uint64_t wanted) { return entry.ptr < wanted; });
  if (found == index_.end() || found->ptr != pointer) return kSizeNotFound;
  return row(found->row).size;
}

Status AllocationTable::find_sizes(std::span<const std::uint64_t> pointers,
                                   std::span<const std::uint64_t> guesses,
                                   std::span<std::uint64_t> sizes) const noexcept {
  if (guesses.size() != pointers.size() || sizes.size() != pointers.size()) {
    return Status(Code::invalid_argument, Detail() << pointers.size() << " pointers, but "
                                                   << guesses.size() << " guesses and "
                                                   << sizes.size() << " sizes");
  }
  for (std::size_t i = 0; i < pointers.size(); ++i) {
    if (guesses[i] < rows_) {
      const TableRow guess = row(guesses[i]);
      if (guess.ptr == pointers[i] && guess.size > 0) {
        sizes[i] = guess.size;
        continue;
      }
    }
    if (Status status = build_index(); !status.is_ok()) return status;
    sizes[i] = search(pointers[i]);
  }
  return {};
}

namespace {

// Bytes a sample takes on its page; UINT64_MAX, which fits no page, when the sum overflows.
std::uint64_t sample_size(std::span<const std::uint64_t> sizes) noexcept {
  std::uint64_t total = 0;
  for (const std::uint64_t size : sizes) {
    if (!checked_add(total, std::max<std::uint64_t>(size, 1), total)) return UINT64_MAX;
  }
  return total;
}

Status check_position(const PagePosition& position) noexcept {
  if (position.page_size == 0) return Status(Code::invalid_argument, "the page size is zero");
  if (position.cursor < position.data_start) {
    return Status(Code::invalid_argument, Detail("the cursor ") << position.cursor
                                                                << " lies before the first page at "
                                                                << position.data_start);
  }
  return {};
}

// Start of a sample of `size` bytes: at the cursor, or on the next page if too little is left.
bool find_start(const PagePosition& position, std::uint64_t size, std::uint64_t& start) noexcept {
  const std::uint64_t used = (position.cursor - position.data_start) % position.page_size;
  const std::uint64_t left = position.page_size - used;
  std::uint64_t end = 0;
  return checked_add(position.cursor, size > left ? left : 0, start) &&
         checked_add(start, size, end);
}

}  // namespace

Result<std::uint64_t> place(std::span<const std::uint64_t> sizes, std::size_t values,
                            const PagePosition& position,
                            std::span<std::uint64_t> pointers) noexcept {
  if (Status status = check_position(position); !status.is_ok()) return status;
  if (pointers.size() != sizes.size() ||
      (values == 0 ? !sizes.empty() : sizes.size() % values != 0)) {
    return Status(Code::invalid_argument, Detail()
                                              << sizes.size() << " sizes and " << pointers.size()
                                              << " pointers are not samples of " << values);
  }
  PagePosition at = position;
  for (std::size_t begin = 0; begin < sizes.size(); begin += values) {
    const auto sample = static_cast<std::int64_t>(begin / values);
    const std::uint64_t size = sample_size(sizes.subspan(begin, values));
    if (size > at.page_size || size == UINT64_MAX) {
      return Status(Code::too_large,
                    Detail("sample ") << static_cast<std::uint64_t>(sample) << " takes " << size
                                      << " bytes, more than a page of " << at.page_size,
                    sample);
    }
    if (!find_start(at, size, at.cursor)) {
      return Status(Code::too_large, "the file offset of a sample exceeds 64 bits", sample);
    }
    for (std::size_t i = begin; i < begin + values; ++i) {
      pointers[i] = at.cursor;
      at.cursor += std::max<std::uint64_t>(sizes[i], 1);
    }
  }
  return at.cursor;
}

}  // namespace headrace
