// Small databases that SQLite has made, to be damaged one byte at a time. They are the corpus of
// the fuzz target file_table: the first page of the table and of its indexes (path, parent and
// address), each a byte, and the file.
//   few_512      4 files, every tree is one page
//   many_512     60 files, inner pages
//   many_1024    50 files
//   long_512     3 files with paths that go on in other pages
//   deleted_512  43 files of 90 that were: free pages, free blocks in pages
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "headrace/sqlite/file_table.hpp"
#include "tests/support.hpp"

namespace headrace::testing {

inline constexpr const char* kStoredDatabases[] = {"few_512", "many_512", "many_1024", "long_512",
                                                   "deleted_512"};

class StoredDatabase {
 public:
  explicit StoredDatabase(const std::string& name) {
    std::ifstream file(std::string(HEADRACE_DATABASES) + "/" + name, std::ios::binary);
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    EXPECT_GT(text.size(), kRoots) << name;
    for (const char c : text) bytes_.push_back(static_cast<std::byte>(c));
    for (std::size_t i = 0; i < kRoots && i < text.size(); ++i) {
      roots_[i] = std::to_integer<std::uint32_t>(bytes_[i]);
    }
    bytes_.erase(bytes_.begin(), bytes_.begin() + kRoots);
    page_size_ = load_u16_be(bytes_.data() + 16);
  }

  // Of the table and of its indexes: by path, by parent, by address.
  [[nodiscard]] const std::array<std::uint32_t, 4>& roots() const noexcept { return roots_; }
  [[nodiscard]] std::vector<std::byte>& bytes() noexcept { return bytes_; }
  [[nodiscard]] std::size_t page_size() const noexcept { return page_size_; }
  [[nodiscard]] std::size_t page_count() const noexcept { return bytes_.size() / page_size_; }

  [[nodiscard]] std::byte* at(std::size_t page, std::size_t offset) noexcept {
    return bytes_.data() + (page - 1) * page_size_ + offset;
  }
  void set(std::size_t page, std::size_t offset, unsigned value) noexcept {
    *at(page, offset) = static_cast<std::byte>(value);
  }
  void set_u16(std::size_t page, std::size_t offset, std::size_t value) noexcept {
    set(page, offset, static_cast<unsigned>(value >> 8U & 0xFFU));
    set(page, offset + 1, static_cast<unsigned>(value & 0xFFU));
  }
  void set_u32(std::size_t page, std::size_t offset, std::size_t value) noexcept {
    set_u16(page, offset, value >> 16U);
    set_u16(page, offset + 2, value & 0xFFFFU);
  }
  [[nodiscard]] std::size_t u8(std::size_t page, std::size_t offset) noexcept {
    return std::to_integer<std::size_t>(*at(page, offset));
  }
  [[nodiscard]] std::size_t u16(std::size_t page, std::size_t offset) noexcept {
    return load_u16_be(at(page, offset));
  }
  [[nodiscard]] std::size_t u32(std::size_t page, std::size_t offset) noexcept {
    return load_u32_be(at(page, offset));
  }

  // Where in a leaf the place of entry `i` is listed; in an inner page it is four bytes later.
  [[nodiscard]] static std::size_t leaf_list(std::size_t i) noexcept { return 8 + 2 * i; }
  [[nodiscard]] static std::size_t inner_list(std::size_t i) noexcept { return 12 + 2 * i; }
  void swap_leaf_entries(std::size_t page, std::size_t i, std::size_t j) noexcept {
    const std::size_t first = u16(page, leaf_list(i));
    set_u16(page, leaf_list(i), u16(page, leaf_list(j)));
    set_u16(page, leaf_list(j), first);
  }

 private:
  static constexpr std::size_t kRoots = 4;

  std::vector<std::byte> bytes_;
  std::array<std::uint32_t, kRoots> roots_{};
  std::size_t page_size_ = 0;
};

}  // namespace headrace::testing
