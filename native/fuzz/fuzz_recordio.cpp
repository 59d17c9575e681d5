// A hostile RecordIO file: its records are found and joined. And any bytes as the data of a record,
// which come back.
#include <cstdlib>
#include <span>
#include <string>

#include "fuzz.hpp"
#include "headrace/formats/recordio.hpp"

namespace headrace::fuzz {
namespace {

constexpr std::size_t kMaxRecords = 1000;

void check_file(ByteSpan file) {
  std::vector<std::uint64_t> offsets(kMaxRecords), sizes(kMaxRecords);
  std::vector<std::uint8_t> is_split(kMaxRecords);
  RecordioScan found;
  static_cast<void>(scan_recordio(file, 0, {offsets, sizes, is_split}, found).is_ok());
  for (std::size_t i = 0; i < found.count; ++i) {
    if (!is_inside(offsets[i], sizes[i], file.size())) std::abort();
    std::string joined;
    if (!join_recordio(file.subspan(offsets[i], sizes[i]), joined).is_ok()) std::abort();
    if (joined.size() > sizes[i]) std::abort();
  }
  std::string joined;
  static_cast<void>(join_recordio(file, joined).is_ok());
}

void check_round_trip(ByteSpan data) {
  std::string stored;
  if (!encode_recordio(data, stored).is_ok()) std::abort();
  std::vector<std::uint64_t> offsets(2), sizes(2);
  std::vector<std::uint8_t> is_split(2);
  RecordioScan found;
  const ByteSpan file = std::as_bytes(std::span(stored));
  if (!scan_recordio(file, 0, {offsets, sizes, is_split}, found).is_ok()) std::abort();
  std::string joined;
  if (found.count != 1 || !join_recordio(file.first(sizes[0]), joined).is_ok()) std::abort();
  const std::string_view before(reinterpret_cast<const char*>(data.data()), data.size());
  if (joined != before) std::abort();
}

}  // namespace

std::vector<Input> seed_inputs() {
  const std::string magic("\x0a\x23\xd7\xce", 4);
  std::vector<Input> inputs;
  for (const std::string& data :
       {std::string(), std::string("abc"), magic + "ab" + magic + magic}) {
    std::string stored;
    if (!encode_recordio(std::as_bytes(std::span(data)), stored).is_ok()) std::abort();
    stored += stored;
    inputs.emplace_back(stored.begin(), stored.end());
  }
  return inputs;
}

}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto bytes = std::as_bytes(std::span(data, size));
  headrace::fuzz::check_file(bytes);
  headrace::fuzz::check_round_trip(bytes);
  return 0;
}
