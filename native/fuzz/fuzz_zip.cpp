// A hostile zip: what is found lies inside it, names stay inside a folder, and groups fit the
// files.
#include <cstdlib>
#include <span>
#include <string>

#include "fuzz.hpp"
#include "headrace/bytes.hpp"
#include "headrace/formats/zip_scan.hpp"

namespace headrace::fuzz {
namespace {

bool is_safe(std::string_view name) {
  if (name.empty() || name.front() == '/') return false;
  for (std::size_t start = 0; start <= name.size();) {
    const std::size_t slash = std::min(name.find('/', start), name.size());
    const std::string_view part = name.substr(start, slash - start);
    if (part.empty() || part == "." || part == "..") return false;
    start = slash + 1;
  }
  return true;
}

void check_files(ByteSpan data, const TextList& names, const std::vector<std::uint64_t>& offsets,
                 const std::vector<std::uint64_t>& sizes) {
  if (names.size() != offsets.size() || names.size() != sizes.size()) std::abort();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (!is_inside(offsets[i], sizes[i], data.size()) || !is_safe(names[i])) std::abort();
  }
  auto found = group_members(names);
  if (!found.is_ok()) return;
  const MemberGroups& groups = found.value();
  if (groups.columns.size() != names.size()) std::abort();
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (groups.columns[i] == kLeftOut) continue;
    if (groups.columns[i] >= groups.endings.size() || groups.groups[i] >= groups.keys.size()) {
      std::abort();
    }
  }
}

void check(ByteSpan data) {
  ZipFiles files;
  if (!scan_zip(data, files).is_ok()) return;
  check_files(data, files.names, files.offsets, files.sizes);
  if (files.full_sizes.size() != files.sizes.size()) std::abort();
}

}  // namespace

// The corpus has some.
std::vector<Input> seed_inputs() { return {Input(22, 0)}; }

}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headrace::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
