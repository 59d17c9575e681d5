// Hostile TFRecord files, and hostile messages in records that are framed as they should be.
//   input: 0 and a file, or anything else and a message
#include <cstdlib>
#include <span>
#include <string>

#include "fuzz.hpp"
#include "headrace/checksum.hpp"
#include "headrace/formats/tf_example.hpp"
#include "headrace/formats/tfrecord.hpp"

namespace headrace::fuzz {
namespace {

constexpr std::size_t kMaxRecords = 1000;

std::vector<std::byte> framed(ByteSpan record) {
  std::vector<std::byte> frame(kTfrecordHeadSize + kTfrecordTailSize);
  if (!frame_tfrecords(std::span(&record, 1), frame).is_ok()) std::abort();
  std::vector<std::byte> file(frame.begin(), frame.begin() + kTfrecordHeadSize);
  file.insert(file.end(), record.begin(), record.end());
  file.insert(file.end(), frame.begin() + kTfrecordHeadSize, frame.end());
  return file;
}

// Reads a column in every way.
void read_column(ByteSpan file, SpanList spans) {
  std::vector<std::int64_t> ints, ends(spans.offsets.size());
  std::vector<float> floats;
  for (const bool is_message : {false, true}) {
    static_cast<void>(read_tf_ints(file, spans, is_message, ints, ends).is_ok());
    static_cast<void>(read_tf_floats(file, spans, is_message, floats, ends).is_ok());
  }
  TfPlaces places, steps;
  static_cast<void>(find_tf_bytes(file, spans, places, ends).is_ok());
  static_cast<void>(find_tf_steps(file, spans, steps, ends).is_ok());
  for (const TfPlaces* found : {&places, &steps}) {
    if (!check_spans({found->offsets, found->sizes}, file.size()).is_ok()) std::abort();
  }
}

void check_file(ByteSpan file, bool makes_checksums) {
  std::vector<std::uint64_t> offsets(kMaxRecords), sizes(kMaxRecords);
  TfrecordScan found;
  static_cast<void>(scan_tfrecord(file, 0, offsets, sizes, found).is_ok());
  offsets.resize(found.count);
  sizes.resize(found.count);
  if (!check_spans({offsets, sizes}, file.size()).is_ok()) std::abort();
  static_cast<void>(check_tfrecords(file, {offsets, sizes}).is_ok());
  TfExampleTable table(100000, makes_checksums);
  for (std::size_t done = 0; done < offsets.size();) {
    const SpanList rest{std::span(offsets).subspan(done), std::span(sizes).subspan(done)};
    const Status status = table.add(file, rest);
    if (status.is_ok()) break;
    done += static_cast<std::size_t>(status.offset()) + 1;
    if (!table.add_bad().is_ok()) std::abort();
    if (table.rows() != done) std::abort();
  }
  const std::size_t columns = table.columns().size();
  std::vector<std::uint64_t> all_offsets(columns * table.rows()), all_sizes(columns * table.rows());
  table.places(0, columns, all_offsets, all_sizes);
  for (std::size_t i = 0; i < all_offsets.size(); ++i) {
    const bool is_bad_row = all_offsets[i] == ~std::uint64_t{0} && all_sizes[i] == 0;
    if (!is_bad_row && !is_inside(all_offsets[i], all_sizes[i], file.size())) std::abort();
    read_column(file, {std::span(all_offsets).subspan(i, 1), std::span(all_sizes).subspan(i, 1)});
    if (is_bad_row) all_offsets[i] = 0;
  }
  if (!makes_checksums) return;
  std::vector<std::uint32_t> expected(all_offsets.size()), sums((columns + 1) * table.rows());
  if (!crc32c_spans(file, all_offsets, all_sizes, expected).is_ok()) std::abort();
  table.checksums(file, sums);
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (sums[i + i / columns + 1] != expected[i]) std::abort();
  }
}

void check(ByteSpan data) {
  if (data.empty()) return;
  for (const bool makes_checksums : {false, true}) {
    if (data[0] == std::byte{}) {
      check_file(data.subspan(1), makes_checksums);
    } else {
      check_file(framed(data.subspan(1)), makes_checksums);
    }
  }
}

Input input_of(char first, const std::string& rest) {
  Input input{static_cast<std::uint8_t>(first)};
  input.insert(input.end(), rest.begin(), rest.end());
  return input;
}

std::string field(unsigned number, const std::string& content) {
  return std::string{static_cast<char>(number << 3 | 2), static_cast<char>(content.size())} +
         content;
}

}  // namespace

std::vector<Input> seed_inputs() {
  const std::string ints = field(3, field(1, "\x05\xff\x01"));
  const std::string floats = field(2, field(1, std::string(8, '\x3f')));
  const std::string texts = field(1, field(1, "abc") + field(1, "d"));
  std::string map;
  for (const std::string& feature : {ints, floats, texts}) {
    map += field(1, field(1, std::string(1, feature[0])) + field(2, feature));
  }
  const std::string lists = field(1, field(1, "s") + field(2, field(1, ints) + field(1, ints)));
  const std::string message = field(1, map) + field(2, lists);
  const auto whole = framed(std::as_bytes(std::span(message)));
  const std::string file(reinterpret_cast<const char*>(whole.data()), whole.size());
  return {input_of(1, message), input_of(1, field(1, map)), input_of(0, file + file),
          input_of(0, file)};
}

}  // namespace headrace::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  headrace::fuzz::check(std::as_bytes(std::span(data, size)));
  return 0;
}
