#include "headrace/io/gather.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace headrace {
namespace {

constexpr std::size_t kLineSize = 64;
// Far enough ahead that memory answers in time, near enough that the lines are still cached when
// their turn comes. Behind the first lines of a span the hardware prefetcher takes over.
constexpr std::size_t kPrefetchSpans = 4;
constexpr std::size_t kPrefetchBytes = 1536;
constexpr std::size_t kFewestFetched = 8, kProbes = 4;

void prefetch(ByteSpan source) noexcept {
  const std::size_t size = std::min(source.size(), kPrefetchBytes);
  for (std::size_t at = 0; at < size; at += kLineSize) __builtin_prefetch(source.data() + at);
}

void copy(ByteSpan source, std::byte* to) noexcept {
  if (!source.empty()) std::memcpy(to, source.data(), source.size());
}

// The whole pages on which a span lies.
MutableByteSpan pages_of(ByteSpan span) noexcept {
  static const auto kPageSize = static_cast<std::uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto first = reinterpret_cast<std::uintptr_t>(span.data()) & ~(kPageSize - 1);
  const auto end = reinterpret_cast<std::uintptr_t>(span.data() + span.size());
  return {reinterpret_cast<std::byte*>(first), end - first};
}

bool is_in_memory(ByteSpan span) noexcept {
  if (span.empty()) return true;
  unsigned char page = 1;
  const MutableByteSpan pages = pages_of(span.subspan(span.size() / 2, 1));
  return mincore(pages.data(), pages.size(), &page) != 0 || (page & 1) != 0;
}

// Pages of a mapped file that are not in memory would be fetched one after the other, each when it
// is touched. The disk answers many at a time if it is asked for all of them first. A few spans
// tell whether that is needed; a wrong guess costs time and nothing else.
template <typename Source>
void fetch_missing(Source span_at, std::size_t n) noexcept {
  if (n < kFewestFetched) return;
  const std::size_t step = n / kProbes;
  bool is_missing = false;
  for (std::size_t i = 0; i < n && !is_missing; i += step) is_missing = !is_in_memory(span_at(i));
  for (std::size_t i = 0; is_missing && i < n; ++i) {
    const MutableByteSpan pages = pages_of(span_at(i));
    if (!span_at(i).empty()) madvise(pages.data(), pages.size(), MADV_WILLNEED);
  }
}

template <typename Source, typename Destination>
void copy_spans(Source span_at, std::size_t n, Destination destination,
                std::span<std::uint32_t> checksums, ChecksumKind kind) noexcept {
  fetch_missing(span_at, n);
  for (std::size_t i = 0; i < std::min(n, kPrefetchSpans); ++i) prefetch(span_at(i));
  for (std::size_t i = 0; i < n; ++i) {
    if (i + kPrefetchSpans < n) prefetch(span_at(i + kPrefetchSpans));
    if (checksums.empty()) {
      copy(span_at(i), destination(i));
    } else {
      checksums[i] = copy_with_checksum(kind, span_at(i), destination(i));
    }
  }
}

auto source_of(ByteSpan base, SpanList spans) noexcept {
  return [=](std::size_t i) { return base.subspan(spans.offsets[i], spans.sizes[i]); };
}

Status check_counts(SpanList spans, std::size_t destinations, std::size_t checksums) noexcept {
  const std::size_t n = spans.offsets.size();
  if (destinations != n || (checksums != 0 && checksums != n)) {
    return Status(Code::invalid_argument, Detail()
                                              << n << " spans, but " << destinations
                                              << " destinations and " << checksums << " checksums");
  }
  return {};
}

Status check_pairs(SpanList spans) noexcept {
  if (spans.offsets.size() == spans.sizes.size()) return {};
  return Status(Code::invalid_argument, Detail() << spans.offsets.size() << " offsets, but "
                                                 << spans.sizes.size() << " sizes");
}

Status outside(SpanList spans, std::size_t i, std::uint64_t region_size) noexcept {
  return Status(Code::out_of_bounds,
                Detail("span ") << i << " (offset " << spans.offsets[i] << ", size "
                                << spans.sizes[i] << ") leaves the region of " << region_size
                                << " bytes",
                static_cast<std::int64_t>(i));
}

Status check_files(std::span<const ByteSpan> bases, std::span<const std::uint32_t> files,
                   SpanList spans) noexcept {
  if (Status status = check_pairs(spans); !status.is_ok()) return status;
  for (std::size_t i = 0; i < files.size(); ++i) {
    if (files[i] >= bases.size()) {
      return Status(Code::invalid_argument,
                    Detail("span ")
                        << i << " is of region " << files[i] << ", there are " << bases.size(),
                    static_cast<std::int64_t>(i));
    }
    const std::uint64_t size = bases[files[i]].size();
    if (!is_inside(spans.offsets[i], spans.sizes[i], size)) return outside(spans, i, size);
  }
  return {};
}

}  // namespace

Status check_spans(SpanList spans, std::uint64_t region_size) noexcept {
  if (Status status = check_pairs(spans); !status.is_ok()) return status;
  for (std::size_t i = 0; i < spans.offsets.size(); ++i) {
    if (!is_inside(spans.offsets[i], spans.sizes[i], region_size)) {
      return outside(spans, i, region_size);
    }
  }
  return {};
}

Status gather(ByteSpan base, SpanList spans, std::span<std::byte* const> destinations,
              std::span<std::uint32_t> checksums) noexcept {
  if (Status status = check_spans(spans, base.size()); !status.is_ok()) return status;
  if (Status status = check_counts(spans, destinations.size(), checksums.size()); !status.is_ok()) {
    return status;
  }
  const auto place = [&](std::size_t i) { return destinations[i]; };
  copy_spans(source_of(base, spans), spans.offsets.size(), place, checksums, ChecksumKind::crc32c);
  return {};
}

Status gather(std::span<const ByteSpan> bases, std::span<const std::uint32_t> files, SpanList spans,
              std::span<std::byte* const> destinations, std::span<std::uint32_t> checksums,
              ChecksumKind kind) noexcept {
  const std::size_t n = spans.offsets.size();
  if (files.size() != n) {
    return Status(Code::invalid_argument, Detail()
                                              << n << " spans, but " << files.size() << " files");
  }
  if (Status status = check_counts(spans, destinations.size(), checksums.size()); !status.is_ok()) {
    return status;
  }
  if (Status status = check_files(bases, files, spans); !status.is_ok()) return status;
  const auto source = [&](std::size_t i) {
    return bases[files[i]].subspan(spans.offsets[i], spans.sizes[i]);
  };
  copy_spans(source, n, [&](std::size_t i) { return destinations[i]; }, checksums, kind);
  return {};
}

Status gather_into(ByteSpan base, SpanList spans, MutableByteSpan out,
                   std::span<const std::uint64_t> out_offsets,
                   std::span<std::uint32_t> checksums) noexcept {
  if (Status status = check_spans(spans, base.size()); !status.is_ok()) return status;
  if (Status status = check_counts(spans, out_offsets.size(), checksums.size()); !status.is_ok()) {
    return status;
  }
  if (Status status = check_spans({out_offsets, spans.sizes}, out.size()); !status.is_ok()) {
    return Status(status.code(), Detail("in the output, ") << status.detail(), status.offset());
  }
  if (is_overlapping(base, out)) {
    return Status(Code::invalid_argument, "the output overlaps the region it is copied from");
  }
  const auto place = [&](std::size_t i) { return out.data() + out_offsets[i]; };
  copy_spans(source_of(base, spans), spans.offsets.size(), place, checksums, ChecksumKind::crc32c);
  return {};
}

}  // namespace headrace
