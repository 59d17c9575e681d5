// tf.train.Example and tf.train.SequenceExample, found by hand in their protocol buffers:
//
//   Example          features = 1: Features
//   SequenceExample  context = 1: Features, feature_lists = 2: FeatureLists
//   Features         feature = 1: map of names to Feature
//   FeatureLists     feature_list = 1: map of names to FeatureList
//   FeatureList      feature = 1: Feature, one for each step
//   Feature          one of bytes_list = 1, float_list = 2, int64_list = 3
//   each list        value = 1, repeated; numbers packed or not
//
// An Example is a SequenceExample without feature_lists, so both are read alike. As in protocol
// buffers, unknown fields are skipped, and of features with the same name the last one counts.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "headrace/bytes.hpp"
#include "headrace/io/gather.hpp"
#include "headrace/status.hpp"

namespace headrace {

enum class TfKind : std::uint8_t { none = 0, bytes = 1, floats = 2, ints = 3 };

// What a column of a table of examples holds.
struct TfColumn {
  std::string name;
  bool is_list = false;              // of feature_lists: a Feature for each step
  TfKind kind = TfKind::none;        // none: no sample has a value
  std::int64_t other_kind_row = -1;  // the first row whose values are of another kind
  std::uint64_t min_count = 0;       // values of a sample, or of a step
  std::uint64_t max_count = 0;
  std::uint64_t min_steps = 0;
  std::uint64_t max_steps = 0;
  bool is_message = false;  // places are those of whole messages, not of their values
};

// Where the features of records are, row by row. Rows that have no value of a column have an empty
// place there.
class TfExampleTable {
 public:
  explicit TfExampleTable(std::uint64_t max_cells, bool makes_checksums = false);
  ~TfExampleTable();
  TfExampleTable(const TfExampleTable&) = delete;
  TfExampleTable& operator=(const TfExampleTable&) = delete;

  // Adds a row for each record of a TFRecord file. A record that is unlike those before it is
  // compared with its checksum, which follows it: what is damaged does not count. Where checksums
  // are made, each record is compared and its features are summed up while it is in the CPU's
  // cache. An error's offset is the index of the bad record, and all before it are added: `corrupt`
  // when it is no example, `too_large` when there are too many columns or rows.
  Status add(ByteSpan file, SpanList records) noexcept;

  // Adds a row whose places are all outside of any file.
  Status add_bad() noexcept;

  [[nodiscard]] std::size_t rows() const noexcept;
  [[nodiscard]] std::vector<TfColumn> columns() const;

  // Places of all rows, `stride` apart, from column `first` of the outputs on.
  void places(std::size_t first, std::size_t stride, std::span<std::uint64_t> offsets,
              std::span<std::uint64_t> sizes) const noexcept;

  // CRC-32C of the records and of what lies at all places, where they are made: rows of 1 +
  // columns.
  void checksums(ByteSpan file, std::span<std::uint32_t> out) const noexcept;

 private:
  struct Rows;
  std::unique_ptr<Rows> rows_;
};

// Numbers of one kind, as many as lie in all spans together, and where those of each span end.
// Spans are packed values, or whole Features (`is_message`). An error's offset is the index of the
// bad span.
Status read_tf_ints(ByteSpan base, SpanList spans, bool is_message,
                    std::vector<std::int64_t>& values, std::span<std::int64_t> ends) noexcept;
Status read_tf_floats(ByteSpan base, SpanList spans, bool is_message, std::vector<float>& values,
                      std::span<std::int64_t> ends) noexcept;

// Places in `base`.
struct TfPlaces {
  std::vector<std::uint64_t> offsets;
  std::vector<std::uint64_t> sizes;
};

// The byte strings of whole Features.
Status find_tf_bytes(ByteSpan base, SpanList features, TfPlaces& places,
                     std::span<std::int64_t> ends) noexcept;

// The Features of whole FeatureLists.
Status find_tf_steps(ByteSpan base, SpanList lists, TfPlaces& places,
                     std::span<std::int64_t> ends) noexcept;

}  // namespace headrace
