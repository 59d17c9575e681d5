// Where the files of a tar are. Only headers are looked at, so a scan reads a page for each file;
// unless it sums up the files in the same pass.
//
// A tar is a row of blocks of 512 bytes: a header, then the content, filled up with zeros. A name
// or a size that has no room in a header stands before it, in a member of its own (GNU: L; pax: x
// and g). A block of zeros ends the archive.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "headrace/bytes.hpp"
#include "headrace/formats/members.hpp"

namespace headrace {

// Members that are no regular files, by why; one of them is named.
struct TarNote {
  std::string_view reason;
  std::uint64_t count;
  std::string example;
};

// One thread scans; the bytes stay where they are as long as the scanner is used. After a failure
// the scanner is not used any more.
class TarScanner {
 public:
  explicit TarScanner(ByteSpan tar, bool makes_checksums = false) noexcept
      : tar_(tar), makes_checksums_(makes_checksums) {}

  // Goes on until so many headers were read, or to the end. The offset of a failure is a byte.
  [[nodiscard]] Status advance(std::size_t headers) noexcept;

  [[nodiscard]] bool is_done() const noexcept { return is_done_; }
  [[nodiscard]] std::uint64_t position() const noexcept { return at_; }
  [[nodiscard]] const std::vector<std::uint64_t>& offsets() const noexcept { return offsets_; }
  [[nodiscard]] const std::vector<std::uint64_t>& sizes() const noexcept { return sizes_; }
  // CRC-32C of each file, where they are made.
  [[nodiscard]] const std::vector<std::uint32_t>& checksums() const noexcept { return checksums_; }
  [[nodiscard]] const TextList& names() const noexcept { return names_; }
  [[nodiscard]] const std::vector<TarNote>& notes() const noexcept { return notes_; }
  // The name that the last header said, for errors about it.
  [[nodiscard]] std::string_view name() const noexcept { return name_; }

 private:
  // What pax says in place of a header.
  struct Extras {
    std::optional<std::string> path;
    std::optional<std::uint64_t> size;
    bool is_sparse = false;
  };

  [[nodiscard]] Status step();
  [[nodiscard]] Status finish();
  [[nodiscard]] Status read_extra(char type, std::uint64_t size);
  [[nodiscard]] Status read_member(ByteSpan header, char type, std::uint64_t size);
  [[nodiscard]] Status read_pax(ByteSpan records, std::uint64_t at, Extras& extras) const;
  [[nodiscard]] Status read_record(std::string_view record, std::uint64_t at, Extras& extras) const;
  [[nodiscard]] Status content_of(std::uint64_t size, ByteSpan& content) const;
  [[nodiscard]] Status add_file(std::uint64_t size);
  void sum_up(std::uint64_t start, std::uint64_t size);
  [[nodiscard]] Status skip_sparse(ByteSpan header);
  void note(std::string_view reason);
  void look_behind();

  ByteSpan tar_;
  bool makes_checksums_;
  std::uint64_t at_ = 0;
  bool is_done_ = false;
  Extras always_;
  Extras next_;
  std::string name_;
  std::string cleaned_;
  std::vector<std::uint64_t> offsets_;
  std::vector<std::uint64_t> sizes_;
  std::vector<std::uint32_t> checksums_;
  TextList names_;
  std::vector<TarNote> notes_;
};

}  // namespace headrace
