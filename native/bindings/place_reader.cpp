#include "headrace/io/place_reader.hpp"

#include <nanobind/stl/pair.h>
#include <nanobind/stl/vector.h>

#include <utility>
#include <vector>

#include "bindings.hpp"
#include "buffer.hpp"
#include "file_places.hpp"
#include "headrace/io/gather.hpp"

namespace headrace::bindings {
namespace {

constexpr std::size_t kMaxShards = 100'000;

using Bytes = nb::typed<nb::list, nb::bytes>;
using Numbers = std::vector<std::int64_t>;

// The shards and what reads from them. Held as buffers, see MappedFileTable.
class MappedShards {
 public:
  MappedShards(std::span<const std::size_t> numbers, std::vector<Buffer> shards)
      : shards_(std::move(shards)), reader_(by_number(numbers, shards_)) {}

  MappedShards(const MappedShards&) = delete;
  MappedShards& operator=(const MappedShards&) = delete;

  [[nodiscard]] const PlaceReader& reader() const noexcept { return reader_; }

 private:
  static std::vector<ByteSpan> by_number(std::span<const std::size_t> numbers,
                                         const std::vector<Buffer>& shards) {
    std::vector<ByteSpan> spans;
    if (numbers.size() != shards.size()) throw_invalid(Detail("every shard needs a number"));
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      const std::size_t number = numbers[i];
      if (number >= kMaxShards) throw_invalid(Detail("there is no shard ") << number);
      if (number >= spans.size()) spans.resize(number + 1);
      spans[number] = shards[i].bytes();
    }
    return spans;
  }

  std::vector<Buffer> shards_;
  PlaceReader reader_;
};

void new_shards(MappedShards* self, const std::vector<std::size_t>& numbers,
                const nb::list& shards) {
  std::vector<Buffer> buffers(shards.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (!buffers[i].acquire(shards[i])) throw_invalid(Detail("shard ") << i << " has no buffer");
  }
  new (self) MappedShards(numbers, std::move(buffers));
}

std::vector<FilePlace> places_of(const PlaceColumns& table) {
  std::vector<FilePlace> places(table.shape(0));
  const std::int64_t* row = table.data();
  for (FilePlace& place : places) {
    place = {row[0], row[1], row[2], row[3]};
    row += 4;
  }
  return places;
}

std::uint64_t total_of(std::span<const std::uint64_t> sizes) noexcept {
  std::uint64_t total = 0;
  for (const std::uint64_t size : sizes) total += size;
  return total;
}

Numbers copy(const MappedShards& shards, std::span<const FilePlace> places,
             std::span<std::byte* const> destinations, bool is_checked, std::uint64_t total) {
  Numbers used;
  Status status;
  {
    const Unlocked unlocked(total >= Unlocked::kLongBytes);
    status = shards.reader().copy(places, destinations, is_checked, used);
  }
  throw_if_error(status);
  return used;
}

std::vector<std::uint64_t> sizes_of(const MappedShards& shards, std::span<const FilePlace> places) {
  throw_if_error(shards.reader().check(places));  // before memory is asked for
  std::vector<std::uint64_t> sizes;
  sizes.reserve(places.size());
  for (const FilePlace& place : places) sizes.push_back(static_cast<std::uint64_t>(place.size));
  return sizes;
}

std::pair<Bytes, Numbers> read_places(const MappedShards& shards, const PlaceColumns& table,
                                      bool is_checked) {
  const std::vector<FilePlace> places = places_of(table);
  const std::vector<std::uint64_t> sizes = sizes_of(shards, places);
  std::vector<std::byte*> destinations;
  nb::list out = new_bytes(sizes, destinations);
  Numbers used = copy(shards, places, destinations, is_checked, total_of(sizes));
  return {Bytes(std::move(out)), std::move(used)};
}

Numbers read_places_into(const MappedShards& shards, const PlaceColumns& table,
                         const MutableByteArray& out, const U64Array& starts, bool is_checked) {
  const std::vector<FilePlace> places = places_of(table);
  const std::vector<std::uint64_t> sizes = sizes_of(shards, places);
  throw_if_error(check_spans({span_of(starts), sizes}, out.size()));
  std::vector<std::byte*> destinations;
  destinations.reserve(places.size());
  for (const std::uint64_t start : span_of(starts)) {
    destinations.push_back(writable_bytes_of(out).data() + start);
  }
  return copy(shards, places, destinations, is_checked, total_of(sizes));
}

}  // namespace

void bind_place_reader(nb::module_& module) {
  nb::class_<MappedShards>(module, "PlaceReader",
                           "Reads files by their places in mapped shards; never changes.")
      .def("__init__", new_shards, nb::arg("numbers"), nb::arg("shards"),
           "Numbers and bytes of the shards.")
      .def("read", read_places, nb::arg("places").noconvert(), nb::arg("checked"),
           "Files at rows of shard, offset, size and CRC-32C (-1 if not known), in this order, and "
           "the numbers of the shards they are from.\n\n"
           "NativeError 'out_of_bounds' or 'corrupt' has the position of the bad one as offset.")
      .def("read_into", read_places_into, nb::arg("places").noconvert(), nb::arg("out").noconvert(),
           nb::arg("starts").noconvert(), nb::arg("checked"),
           "The same into one array, file i from byte starts[i] on.");
}

}  // namespace headrace::bindings
