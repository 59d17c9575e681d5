#include <algorithm>
#include <limits>
#include <new>
#include <unordered_map>
#include <utility>

#include "core/formats/tf_feature.hpp"
#include "headrace/checksum.hpp"
#include "headrace/formats/tf_example.hpp"
#include "headrace/formats/tfrecord.hpp"
#include "headrace/formats/wire.hpp"

namespace headrace {
namespace tf_rows {

constexpr std::size_t kMaxColumns = 1000;
constexpr std::size_t kMaxNameSize = 1024;
constexpr std::uint64_t kOutside = std::numeric_limits<std::uint64_t>::max();
constexpr std::uint32_t kFeaturesField = 1;
constexpr std::uint32_t kListsField = 2;

struct Place {
  std::uint64_t offset = 0;
  std::uint64_t size = 0;
};

struct Cell {
  Place values;
  Place message;
};

constexpr Cell kBadCell{{kOutside, 0}, {kOutside, 0}};

// What a record has in a column.
struct Found {
  Cell cell;
  TfKind kind = TfKind::none;
  bool is_one_span = true;
  bool is_mixed = false;
  std::uint64_t min_count = 0;
  std::uint64_t max_count = 0;
  std::uint64_t steps = 0;
};

struct Column {
  TfColumn facts;
  std::vector<Cell> cells;
  std::vector<std::uint32_t> checksums;
  std::size_t stale_rows = 0;  // were summed up before it was known what their places are
  bool is_summed_as_message = false;
  bool has_counts = false;
  bool has_rows = false;
  bool has_other_encoding = false;
  std::uint64_t row_seen = kOutside;  // `found` is of this row
  Found found;

  // Bytes that may be missing could not be told from empty ones by the place of their values.
  [[nodiscard]] bool is_message() const noexcept {
    const bool is_single = facts.min_count == 1 && facts.max_count == 1;
    return facts.is_list || has_other_encoding || (facts.kind == TfKind::bytes && !is_single);
  }

  [[nodiscard]] const Place& place(std::size_t row) const noexcept {
    return is_message() ? cells[row].message : cells[row].values;
  }

  [[nodiscard]] std::uint32_t checksum_of(ByteSpan file, std::size_t row) const noexcept {
    const auto [offset, size] = place(row);
    return is_inside(offset, size, file.size()) ? crc32c(file.subspan(offset, size)) : 0;
  }

  void sum_up(ByteSpan file) {
    if (is_message() != is_summed_as_message) stale_rows = checksums.size();
    is_summed_as_message = is_message();
    checksums.push_back(checksum_of(file, checksums.size()));
  }
};

struct NameHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view name) const noexcept {
    return std::hash<std::string_view>{}(name);
  }
};

using ColumnNumbers = std::unordered_map<std::string, std::size_t, NameHash, std::equal_to<>>;

std::string_view text_of(ByteSpan bytes) noexcept {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

Place place_of(ByteSpan file, ByteSpan part) noexcept {
  return {part.empty() ? 0 : static_cast<std::uint64_t>(part.data() - file.data()), part.size()};
}

Status no_memory_for_places() noexcept {
  return {Code::out_of_memory, "no memory for the places of all features"};
}

// The name and the message of an entry of a map.
struct Entry {
  ByteSpan name;
  ByteSpan message;
};

bool parse_entry(ByteSpan bytes, Entry& entry) noexcept {
  entry = {};
  std::size_t messages = 0;
  WireReader reader(bytes);
  for (WireField field; reader.next(field);) {
    if (field.type != WireType::bytes) continue;
    if (field.number == 1) entry.name = field.payload;
    if (field.number == 2) {
      entry.message = field.payload;
      ++messages;
    }
  }
  return !reader.is_bad() && messages <= 1;
}

bool find_feature(ByteSpan file, ByteSpan message, Found& found) noexcept {
  TfFeature feature;
  if (!parse_tf_feature(message, feature)) return false;
  found = {};
  found.cell.message = place_of(file, message);
  found.kind = feature.count == 0 ? TfKind::none : feature.kind;
  found.is_one_span = feature.is_one_span;
  found.min_count = found.max_count = feature.count;
  if (feature.is_one_span) found.cell.values = place_of(file, feature.values);
  return true;
}

bool find_list(ByteSpan file, ByteSpan message, Found& found) noexcept {
  found = {};
  found.cell.message = place_of(file, message);
  WireReader reader(message);
  for (WireField field; reader.next(field);) {
    if (field.number != 1 || field.type != WireType::bytes) continue;
    TfFeature step;
    if (!parse_tf_feature(field.payload, step)) return false;
    if (step.count != 0) {
      if (found.kind != TfKind::none && found.kind != step.kind) found.is_mixed = true;
      found.kind = step.kind;
    }
    found.min_count = found.steps == 0 ? step.count : std::min(found.min_count, step.count);
    found.max_count = std::max(found.max_count, step.count);
    ++found.steps;
  }
  return !reader.is_bad();
}

struct Table {
  std::uint64_t max_cells = 0;
  bool makes_checksums = false;
  std::vector<std::uint32_t> record_checksums;
  std::size_t count = 0;
  std::vector<Column> columns;
  ColumnNumbers features;
  ColumnNumbers lists;
  std::vector<std::size_t> bad_rows;
  std::size_t guess = 0;  // most records have their features in the same order

  // The column of a name; a new one where there is none. Null where there are too many.
  Column* column(std::string_view name, bool is_list) {
    if (guess < columns.size() && columns[guess].facts.name == name &&
        columns[guess].facts.is_list == is_list) {
      return &columns[guess++];
    }
    ColumnNumbers& numbers = is_list ? lists : features;
    const auto known = numbers.find(name);
    if (known != numbers.end()) {
      guess = known->second + 1;
      return &columns[known->second];
    }
    if (columns.size() == kMaxColumns || (columns.size() + 1) * (count + 1) > max_cells) {
      return nullptr;
    }
    Column& added = columns.emplace_back();
    added.facts.name = name;
    added.facts.is_list = is_list;
    added.cells.resize(count);
    if (makes_checksums) added.checksums.resize(count);  // of no bytes
    for (const std::size_t row : bad_rows) added.cells[row] = kBadCell;
    added.has_rows = count > bad_rows.size();  // samples that have none
    added.has_counts = added.has_rows && !is_list;
    numbers.emplace(name, columns.size() - 1);
    guess = columns.size();
    return &added;
  }

  Status add_map(ByteSpan file, ByteSpan map, bool is_list) {
    WireReader reader(map);
    for (WireField field; reader.next(field);) {
      if (field.number != 1 || field.type != WireType::bytes) continue;
      Entry entry;
      Found found;
      if (!parse_entry(field.payload, entry) || entry.name.size() > kMaxNameSize ||
          !(is_list ? find_list : find_feature)(file, entry.message, found)) {
        return {Code::corrupt, "a feature of it is damaged"};
      }
      Column* into = column(text_of(entry.name), is_list);
      if (into == nullptr) {
        return {Code::too_large, "there are too many features for so many records"};
      }
      into->found = found;
      into->row_seen = count;
    }
    return reader.is_bad() ? Status(Code::corrupt, "its map of features is damaged") : Status();
  }

  Status add_record(ByteSpan file, ByteSpan record) {
    guess = 0;
    WireReader reader(record);
    for (WireField field; reader.next(field);) {
      if (field.type != WireType::bytes) continue;
      if (field.number != kFeaturesField && field.number != kListsField) continue;
      const Status status = add_map(file, field.payload, field.number == kListsField);
      if (!status.is_ok()) return status;
    }
    if (reader.is_bad()) return {Code::corrupt, "it is no protocol buffer"};
    return columns.size() * (count + 1) > max_cells
               ? Status(Code::too_large, "there are too many features for so many records")
               : Status();
  }

  // What the record had goes into the columns.
  void finish_row(ByteSpan file, std::uint32_t record_checksum) {
    if (makes_checksums) record_checksums.push_back(record_checksum);
    for (Column& column : columns) {
      const Found found = column.row_seen == count ? column.found : Found{};
      column.cells.push_back(found.cell);
      note(column, found);
      if (makes_checksums) column.sum_up(file);
    }
    ++count;
  }

  void note(Column& column, const Found& found) const noexcept {
    TfColumn& facts = column.facts;
    const bool is_other =
        facts.kind != TfKind::none && found.kind != TfKind::none && found.kind != facts.kind;
    if ((is_other || found.is_mixed) && facts.other_kind_row < 0) {
      facts.other_kind_row = static_cast<std::int64_t>(count);
    }
    if (facts.kind == TfKind::none) facts.kind = found.kind;
    if (!found.is_one_span) column.has_other_encoding = true;
    const bool has_values = !facts.is_list || found.steps > 0;  // no step has no count of values
    if (has_values) {
      facts.min_count =
          column.has_counts ? std::min(facts.min_count, found.min_count) : found.min_count;
      facts.max_count = std::max(facts.max_count, found.max_count);
      column.has_counts = true;
    }
    facts.min_steps = column.has_rows ? std::min(facts.min_steps, found.steps) : found.steps;
    facts.max_steps = std::max(facts.max_steps, found.steps);
    column.has_rows = true;
  }

  // The record that was added last has something that none before it had. Most are like all others;
  // of this one it is worth to know that it is whole before it says what the columns are.
  [[nodiscard]] bool is_surprise(std::size_t columns_before) const noexcept {
    if (columns.size() > columns_before) return true;
    return std::any_of(columns.begin(), columns.end(), [this](const Column& column) {
      return is_news(column, column.row_seen == count ? column.found : Found{});
    });
  }

  static bool is_news(const Column& column, const Found& found) noexcept {
    const TfColumn& facts = column.facts;
    const bool is_other_kind = found.kind != TfKind::none && found.kind != facts.kind;
    const bool has_counts = !facts.is_list || found.steps > 0;
    const bool is_other_count =
        has_counts && (found.min_count < facts.min_count || found.max_count > facts.max_count);
    const bool is_other_length = found.steps < facts.min_steps || found.steps > facts.max_steps;
    const bool is_other_encoding = !found.is_one_span && !column.has_other_encoding;
    return is_other_kind || is_other_count || is_other_length || is_other_encoding ||
           found.is_mixed;
  }

  // Takes back what a record has brought that was not good after all.
  void forget(std::size_t columns_before) noexcept {
    while (columns.size() > columns_before) {
      const TfColumn& facts = columns.back().facts;
      ColumnNumbers& numbers = facts.is_list ? lists : features;
      const auto known = numbers.find(facts.name);
      if (known != numbers.end()) numbers.erase(known);
      columns.pop_back();
    }
    for (Column& column : columns) column.row_seen = kOutside;
  }
};

}  // namespace tf_rows

struct TfExampleTable::Rows : tf_rows::Table {};

TfExampleTable::TfExampleTable(std::uint64_t max_cells, bool makes_checksums)
    : rows_(std::make_unique<Rows>()) {
  rows_->max_cells = max_cells;
  rows_->makes_checksums = makes_checksums;
}

TfExampleTable::~TfExampleTable() = default;

std::size_t TfExampleTable::rows() const noexcept { return rows_->count; }

Status TfExampleTable::add(ByteSpan file, SpanList records) noexcept {
  for (std::size_t i = 0; i < records.offsets.size(); ++i) {
    const auto position = static_cast<std::int64_t>(i);
    if (!is_inside(records.offsets[i], records.sizes[i], file.size())) {
      return {Code::out_of_bounds, "the record lies outside of the file", position};
    }
    const std::size_t columns_before = rows_->columns.size();
    const SpanList one{records.offsets.subspan(i, 1), records.sizes.subspan(i, 1)};
    std::uint32_t checksum = 0;
    const auto check = [&] {
      return check_tfrecords(file, one, {&checksum, 1}).is_ok()
                 ? Status()
                 : Status(Code::corrupt, "it is damaged, as its checksum says");
    };
    const bool is_each_checked = rows_->makes_checksums;
    Status status = is_each_checked ? check() : Status();
    try {
      if (status.is_ok()) {
        status = rows_->add_record(file, file.subspan(records.offsets[i], records.sizes[i]));
      }
      if (status.is_ok() && !is_each_checked && rows_->is_surprise(columns_before)) {
        status = check();
      }
      if (status.is_ok()) rows_->finish_row(file, checksum);
    } catch (const std::bad_alloc&) {
      status = tf_rows::no_memory_for_places();
    }
    if (!status.is_ok()) {
      rows_->forget(columns_before);
      return {status.code(), status.detail(), position};
    }
  }
  return {};
}

Status TfExampleTable::add_bad() noexcept {
  try {
    for (tf_rows::Column& column : rows_->columns) {
      column.cells.push_back(tf_rows::kBadCell);
      if (rows_->makes_checksums) column.checksums.push_back(0);
    }
    if (rows_->makes_checksums) rows_->record_checksums.push_back(0);
    rows_->bad_rows.push_back(rows_->count);
  } catch (const std::bad_alloc&) {
    return tf_rows::no_memory_for_places();
  }
  ++rows_->count;
  return {};
}

std::vector<TfColumn> TfExampleTable::columns() const {
  std::vector<TfColumn> out;
  for (const tf_rows::Column& column : rows_->columns) {
    out.push_back(column.facts);
    out.back().is_message = column.is_message();
  }
  return out;
}

void TfExampleTable::places(std::size_t first, std::size_t stride, std::span<std::uint64_t> offsets,
                            std::span<std::uint64_t> sizes) const noexcept {
  for (std::size_t i = 0; i < rows_->columns.size(); ++i) {
    const tf_rows::Column& column = rows_->columns[i];
    for (std::size_t row = 0; row < rows_->count; ++row) {
      const tf_rows::Place& place = column.place(row);
      offsets[row * stride + first + i] = place.offset;
      sizes[row * stride + first + i] = place.size;
    }
  }
}

void TfExampleTable::checksums(ByteSpan file, std::span<std::uint32_t> out) const noexcept {
  const std::size_t stride = rows_->columns.size() + 1;
  if (!rows_->makes_checksums || out.size() < rows_->count * stride) return;
  for (std::size_t row = 0; row < rows_->count; ++row) {
    out[row * stride] = rows_->record_checksums[row];
  }
  for (std::size_t i = 0; i < rows_->columns.size(); ++i) {
    const tf_rows::Column& column = rows_->columns[i];
    for (std::size_t row = 0; row < rows_->count; ++row) {
      const bool is_stale = row < column.stale_rows;
      out[row * stride + 1 + i] = is_stale ? column.checksum_of(file, row) : column.checksums[row];
    }
  }
}

}  // namespace headrace
