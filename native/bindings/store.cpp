#include "headrace/images/store.hpp"

#include <string>
#include <vector>

#include "bindings.hpp"
#include "buffer.hpp"

namespace headrace::bindings {
namespace {

// One image of a batch: where it comes from, and what became of it.
struct Item {
  std::string path;  // empty: the bytes are in `given`
  Buffer given;
  std::vector<std::byte> file;
  StoredImage stored;
  bool is_stored = false;

  [[nodiscard]] ByteSpan source() const noexcept { return path.empty() ? given.bytes() : file; }
};

Item item_of(nb::handle source) {
  Item item;
  if (PyObject_CheckBuffer(source.ptr()) != 0) {
    if (!item.given.acquire(source)) throw nb::type_error("a source has no contiguous bytes");
    return item;
  }
  PyObject* encoded = nullptr;  // str and os.PathLike, as Python itself turns them into file names
  if (PyUnicode_FSConverter(source.ptr(), &encoded) == 0) throw nb::python_error();
  const nb::object owner = nb::steal(encoded);
  item.path = PyBytes_AsString(encoded);
  return item;
}

void store(Item& item, const StoreOptions& options, std::uint64_t jpg_above,
           StoreScratch& scratch) {
  if (!item.path.empty() && !read_file(item.path.c_str(), item.file).is_ok()) return;
  Result<StoredImage> stored = store_jpeg(item.source(), options, jpg_above, scratch);
  item.is_stored = stored.is_ok();
  if (item.is_stored) item.stored = std::move(stored.value());
}

nb::object result_of(const Item& item, nb::handle source) {
  if (!item.is_stored) return nb::none();
  const StoredImage& stored = item.stored;
  const bool is_given = stored.is_source && item.path.empty();
  const ByteSpan bytes = stored.is_source ? item.source() : ByteSpan(stored.bytes);
  nb::object payload = is_given ? nb::borrow(source) : nb::bytes(bytes.data(), bytes.size());
  return nb::make_tuple(stored.is_jpeg, stored.shape.width, stored.shape.height, payload);
}

nb::list store_jpegs(const nb::list& sources, std::uint32_t max_side, int quality,
                     const U64Array& jpg_above) {
  if (jpg_above.size() != nb::len(sources)) {
    throw_if_error(Status(Code::invalid_argument, "jpg_above must have one entry for each source"));
  }
  std::vector<Item> items;
  items.reserve(nb::len(sources));
  for (nb::handle source : sources) items.push_back(item_of(source));
  {
    nb::gil_scoped_release unlocked;
    StoreScratch scratch;
    const StoreOptions options{.max_side = max_side, .quality = quality};
    for (std::size_t i = 0; i < items.size(); ++i) {
      store(items[i], options, jpg_above.data()[i], scratch);
    }
  }
  nb::list out;
  for (std::size_t i = 0; i < items.size(); ++i) out.append(result_of(items[i], sources[i]));
  return out;
}

}  // namespace

void bind_store(nb::module_& module) {
  module.def(
      "store_jpegs", store_jpegs, nb::arg("sources"), nb::arg("max_side"), nb::arg("quality"),
      nb::arg("jpg_above").noconvert(),
      nb::sig("def store_jpegs(sources: list[Buffer | str | os.PathLike[str]], max_side: int, "
              "quality: int, jpg_above: NDArray[numpy.uint64]) -> "
              "list[tuple[bool, int, int, Any] | None]"),
      "Store JPEG files or bytes: (is JPEG, width, height, payload), or None where this one "
      "needs other means.");
}

}  // namespace headrace::bindings
