// A hostile tar: what is found lies inside it, names stay inside a folder, and groups fit the
// files.
#include <cstdlib>
#include <span>
#include <string>

#include "fuzz.hpp"
#include "headrace/bytes.hpp"
#include "headrace/formats/tar.hpp"
#include "headrace/formats/tar_scan.hpp"

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
  TarScanner scanner(data);
  if (!scanner.advance(1 << 20).is_ok()) return;
  check_files(data, scanner.names(), scanner.offsets(), scanner.sizes());
}

void add(Input& input, const std::string& name, const std::string& content) {
  TarPart part(false);
  const Status status =
      part.add({name, false, 0644, 0, 0, 0, 0}, std::as_bytes(std::span(content)));
  if (!status.is_ok()) std::abort();
  for (const std::byte byte : part.bytes()) input.push_back(std::to_integer<std::uint8_t>(byte));
}

}  // namespace

std::vector<Input> seed_inputs() {
  Input plain, deep;
  for (const char* name : {"a/1.jpg", "a/1.cls", "a/2.jpg", "a/2.cls"}) add(plain, name, "12");
  add(deep, std::string(120, 'd') + "/" + std::string(130, 'f') + ".txt", "x");
  for (Input* input : {&plain, &deep}) input->insert(input->end(), 1024, 0);
  return {plain, deep};
}

}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headrace::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
