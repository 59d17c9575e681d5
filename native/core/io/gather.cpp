#include "headrace/io/gather.hpp"

#include <algorithm>
#include <cstring>

namespace headrace {
namespace {

constexpr std::size_t kLineSize = 64;
// Far enough ahead that memory answers in time, near enough that the lines are still cached when
// their turn comes. Behind the first lines of a span the hardware prefetcher takes over.
constexpr std::size_t kPrefetchSpans = 4;
constexpr std::size_t kPrefetchBytes = 1536;

void prefetch(ByteSpan source) noexcept {
  const std::size_t size = std::min(source.size(), kPrefetchBytes);
  for (std::size_t at = 0; at < size; at += kLineSize) __builtin_prefetch(source.data() + at);
}

void copy(ByteSpan source, std::byte* to) noexcept {
  if (!source.empty()) std::memcpy(to, source.data(), source.size());
}

template <typename Source, typename Destination>
void copy_spans(Source span_at, std::size_t n, Destination destination,
                std::span<std::uint32_t> checksums, ChecksumKind kind) noexcept {
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
