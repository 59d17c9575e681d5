#include <algorithm>
#include <cstring>
#include <new>

#include "core/sqlite/values.hpp"
#include "headrace/sqlite/file_table.hpp"

namespace headrace::sqlite {
namespace {

constexpr std::string_view kMagic("SQLite format 3\0", 16);
constexpr std::size_t kFileHeader = 100;
constexpr std::size_t kMinUsable = 480;
// No path is that long; rows that share their pages could make a small file endless.
constexpr std::uint64_t kMaxJoined = std::uint64_t{1} << 20U;

Status not_readable(std::string_view why) noexcept {
  return Status(Code::unsupported, Detail("not a database that can be read directly: ") << why);
}

}  // namespace

Result<File> File::open(ByteSpan bytes) noexcept {
  if (bytes.size() < kFileHeader || std::memcmp(bytes.data(), kMagic.data(), kMagic.size()) != 0) {
    return not_readable("it does not begin as SQLite's files do");
  }
  File file;
  const std::size_t stored = load_u16_be(bytes.data() + 16);
  file.page_size_ = stored == 1 ? 65536 : stored;
  const std::size_t unused = std::to_integer<std::size_t>(bytes[20]);
  if (file.page_size_ < 512 || (file.page_size_ & (file.page_size_ - 1)) != 0 ||
      file.page_size_ - unused < kMinUsable) {
    return not_readable("the size of its pages cannot be right");
  }
  if (load_u32_be(bytes.data() + 56) != 1) return not_readable("its text is not UTF-8");
  file.usable_ = file.page_size_ - unused;
  file.bytes_ = bytes;
  file.page_count_ =
      static_cast<std::uint32_t>(std::min<std::size_t>(bytes.size() / file.page_size_, UINT32_MAX));
  return file;
}

ByteSpan File::page_bytes(std::uint32_t number) const noexcept {
  if (number == 0 || number > page_count_) return {};
  return bytes_.subspan((number - std::size_t{1}) * page_size_, usable_);
}

bool File::page(std::uint32_t number, Page& out) const noexcept {
  out.bytes = page_bytes(number);
  if (out.bytes.empty()) return false;
  out.header = number == 1 ? kFileHeader : 0;
  out.kind = std::to_integer<std::uint8_t>(out.bytes[out.header]);
  out.count = load_u16_be(out.bytes.data() + out.header + 3);
  out.entries = out.header + (is_inner(out) ? 12 : 8);
  return out.entries + 2 * std::size_t{out.count} <= usable_;
}

bool File::payload(const Page& page, ByteSpan from, std::uint64_t size,
                   Payload& out) const noexcept {
  const std::uint64_t most = page.kind == kTableLeaf ? usable_ - 35 : local_limit();
  out.size = size;
  out.overflow = 0;
  if (size <= most) {
    if (size > from.size()) return false;
    out.local = from.first(static_cast<std::size_t>(size));
    return true;
  }
  const std::uint64_t least = (usable_ - 12) * 32 / 255 - 23;
  const std::uint64_t fitting = least + (size - least) % (usable_ - 4);
  const auto here = static_cast<std::size_t>(fitting <= most ? fitting : least);
  if (here + 4 > from.size() || size > bytes_.size()) return false;
  out.local = from.first(here);
  out.overflow = load_u32_be(from.data() + here);
  return true;
}

bool File::join(const Payload& payload, std::vector<std::byte>& scratch,
                ByteSpan& out) const noexcept {
  if (payload.local.size() == payload.size) {
    out = payload.local;
    return true;
  }
  if (payload.size > kMaxJoined) return false;
  try {
    scratch.assign(payload.local.begin(), payload.local.end());
    scratch.reserve(static_cast<std::size_t>(payload.size));
  } catch (const std::bad_alloc&) {
    return false;
  }
  std::uint32_t number = payload.overflow;
  while (scratch.size() < payload.size) {  // every page brings some bytes, so this ends
    const ByteSpan page = page_bytes(number);
    if (page.empty()) return false;
    const ByteSpan part = page.subspan(4, static_cast<std::size_t>(std::min<std::uint64_t>(
                                              usable_ - 4, payload.size - scratch.size())));
    scratch.insert(scratch.end(), part.begin(), part.end());
    number = load_u32_be(page.data());
  }
  out = scratch;
  return true;
}

}  // namespace headrace::sqlite
