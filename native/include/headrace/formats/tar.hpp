// Parts of a tar, made in memory: headers and contents of many members, one after the other.
//
// Headers are ustar's, with times in whole seconds, as tar(1) writes them. Records of pax stand
// before a header only where it cannot say something: a long name or one that is not ASCII, a size
// from 8 GiB on, a large number of an owner, a time before 1970, or a fraction of a second where
// those are asked for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "headrace/bytes.hpp"
#include "headrace/status.hpp"

namespace headrace {

inline constexpr std::size_t kTarBlockSize = 512;

// A file or directory; the name has no slash at its end, the mode only permissions.
struct TarMember {
  std::string_view name;
  bool is_directory = false;
  std::uint32_t mode = 0;
  std::int64_t uid = 0;
  std::int64_t gid = 0;
  std::uint64_t size = 0;
  std::int64_t mtime_ns = 0;
};

// After a failure the part has no more than before.
class TarPart {
 public:
  explicit TarPart(bool has_exact_times) noexcept : has_exact_times_(has_exact_times) {}

  [[nodiscard]] Status add_header(const TarMember& member) noexcept;

  // The header, the content and what fills the last block. The member's size is that of the
  // content.
  [[nodiscard]] Status add(TarMember member, ByteSpan content) noexcept;

  // A file or directory of the disk, with what the file system says about it. `too_large` for a
  // file of more than `most_bytes`, `unsupported` for what is neither file nor directory; never
  // waits for a pipe. The content is what was there when it was read.
  [[nodiscard]] Status add_from_disk(const char* path, std::string_view name,
                                     std::uint64_t most_bytes) noexcept;

  [[nodiscard]] ByteSpan bytes() const noexcept {
    return {reinterpret_cast<const std::byte*>(bytes_.data()), bytes_.size()};
  }
  // Bytes of all contents.
  [[nodiscard]] std::uint64_t content_bytes() const noexcept { return content_bytes_; }

 private:
  void put_header(const TarMember& member);
  void put_pax(std::string_view records);
  [[nodiscard]] Status put_file(int fd, std::string_view name, std::uint64_t most_bytes);
  void fill_block();

  std::string bytes_;
  std::uint64_t content_bytes_ = 0;
  bool has_exact_times_;
};

}  // namespace headrace
