// A hostile SQLite file as the index of an archive: all rows, look-ups alone and together, and the
// comparison of its indexes.
//   input: first page of the table, of the index of paths, of parents, of addresses, each u8 | file
#include <cstdlib>
#include <string>

#include "fuzz.hpp"
#include "headrace/sqlite/file_table.hpp"
#include "headrace/sqlite/index_check.hpp"
#include "headrace/sqlite/page_check.hpp"

namespace headrace::fuzz {
namespace {

constexpr std::size_t kHeaderSize = 4;
constexpr std::size_t kMaxLookups = 40;

bool is_same(const FilePlace& a, const FilePlace& b) {
  return a.shard == b.shard && a.offset == b.offset && a.size == b.size && a.crc32c == b.crc32c;
}

void check_lookups(const FileTable& table, const std::vector<std::string>& names) {
  const std::vector<std::string_view> views(names.begin(), names.end());
  std::vector<FilePlace> places(views.size());
  table.find_many(views, places);
  for (std::size_t i = 0; i < views.size(); ++i) {
    FilePlace place{};
    if (table.find(views[i], place) != (places[i].shard >= 0)) std::abort();
    if (places[i].shard >= 0 && !is_same(place, places[i])) std::abort();
  }
}

void check(ByteSpan data) {
  if (data.size() < kHeaderSize) return;
  const auto root = [&](std::size_t i) { return std::to_integer<std::uint32_t>(data[i]); };
  auto table =
      FileTable::open(data.subspan(kHeaderSize), {root(0), root(1), {0, 1, 2, 3, 4, 5, 6, 7, 8}});
  if (!table.is_ok()) return;
  std::vector<std::string> names = {"", "a", "zzz"};
  FileTable::Rows rows(table.value());
  FileRow row;
  for (auto more = rows.next(row); more.is_ok() && more.value(); more = rows.next(row)) {
    if (names.size() < kMaxLookups) names.emplace_back(row.path);
  }
  check_lookups(table.value(), names);
  const FileIndex indexes[] = {
      {root(1), IndexKey::path}, {root(2), IndexKey::parent}, {root(3), IndexKey::address}};
  static_cast<void>(indexes_agree(table.value(), indexes));
  const std::uint32_t roots[] = {1, root(0), root(1), root(2), root(3)};
  static_cast<void>(pages_are_sound(table.value().file(), roots));
}

}  // namespace

std::vector<Input> seed_inputs() { return {Input(kHeaderSize + 512)}; }

}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headrace::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
