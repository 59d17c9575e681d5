#include "headrace/io/range_reader.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/vector.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "bindings.hpp"
#include "buffer.hpp"

namespace headrace::bindings {
namespace {

using U32Array = Array<const std::uint32_t, nb::ndim<1>>;
using Failures = nb::typed<nb::list, nb::typed<nb::tuple, nb::int_, nb::str, nb::str>>;

// So long a Ctrl-C may wait.
constexpr std::chrono::milliseconds kSignalInterval(250);

ReadEngine engine_of(std::string_view name) {
  for (const ReadEngine engine :
       {ReadEngine::automatic, ReadEngine::io_uring, ReadEngine::threads}) {
    if (read_engine_name(engine) == name) return engine;
  }
  throw_if_error(Status(Code::invalid_argument, Detail("unknown engine '")
                                                    << name
                                                    << "'; known are auto, io_uring and threads"));
  return ReadEngine::automatic;
}

// Any name the system can have, as os.fsencode gives it; a NUL in it is a ValueError.
std::string path_of(nb::handle path) {
  PyObject* bytes = nullptr;
  if (PyUnicode_FSConverter(path.ptr(), &bytes) == 0) throw nb::python_error();
  const nb::object owner = nb::steal(bytes);
  return PyBytes_AsString(bytes);
}

// One path, or a list of them.
std::vector<std::string> paths_of(nb::handle paths) {
  std::vector<std::string> result;
  if (!nb::isinstance<nb::list>(paths) && !nb::isinstance<nb::tuple>(paths)) {
    result.push_back(path_of(paths));
    return result;
  }
  for (const nb::handle path : nb::borrow<nb::object>(paths)) result.push_back(path_of(path));
  return result;
}

std::unique_ptr<RangeReader> open_reader(const std::vector<std::string>& paths,
                                         std::size_t queue_depth, bool direct,
                                         std::string_view engine) {
  const ReaderOptions options{queue_depth, direct, engine_of(engine)};
  std::vector<const char*> names;
  names.reserve(paths.size());
  for (const std::string& path : paths) names.push_back(path.c_str());
  std::size_t failed = 0;
  Result<std::unique_ptr<RangeReader>> reader = [&] {
    nb::gil_scoped_release unlocked;
    return RangeReader::open(names, options, &failed);
  }();
  const Status& status = reader.status();
  if (status.code() == Code::io_error && status.offset() > 0) {
    throw_os_error(static_cast<int>(status.offset()), paths[failed].c_str());
  }
  return std::move(value_or_throw(std::move(reader)));
}

// The calls under way use the reader, so it is closed only when its last user lets go of it.
struct Reader {
  Reader(nb::handle path, std::size_t queue_depth, bool direct, std::string_view engine)
      : core(open_reader(paths_of(path), queue_depth, direct, engine)) {}

  std::unique_ptr<RangeReader> core;
};

Failures to_list(std::span<const ReadFailure> failures) {
  nb::list list;
  for (const ReadFailure& failure : failures) {
    const std::string_view code = code_name(failure.code);
    const Detail detail = failure.detail();
    list.append(nb::make_tuple(failure.position, nb::str(code.data(), code.size()),
                               nb::str(detail.view().data(), detail.view().size())));
  }
  return Failures(std::move(list));
}

template <typename A>
void check_count(const std::optional<A>& values, std::size_t ranges, const char* name) {
  if (values && values->size() != ranges) {
    throw_invalid(Detail(name) << " has " << values->size() << " entries for " << ranges
                               << " ranges");
  }
}

std::span<const std::uint32_t> span_or_empty(const std::optional<U32Array>& values) {
  return values ? span_of(*values) : std::span<const std::uint32_t>();
}

// A call that is given up waits for the reads under way, and others may need the GIL meanwhile.
struct CallCloser {
  void operator()(ReadCall* call) const noexcept {
    nb::gil_scoped_release unlocked;
    delete call;
  }
};

Failures run(Reader& reader, const ReadRequest& request) {
  bool is_done = false;
  Result<std::unique_ptr<ReadCall>> begun = [&] {
    nb::gil_scoped_release unlocked;
    auto call = reader.core->begin(request);
    if (call.is_ok()) is_done = call.value()->advance(kSignalInterval);
    return call;
  }();
  std::unique_ptr<ReadCall, CallCloser> call(value_or_throw(std::move(begun)).release());
  while (!is_done) {
    if (PyErr_CheckSignals() != 0) throw nb::python_error();
    nb::gil_scoped_release unlocked;
    is_done = call->advance(kSignalInterval);
  }
  return to_list(call->failures());
}

Failures read(Reader& reader, const U64Array& offsets, const U64Array& sizes,
              const MutableByteArray& out, const U64Array& places,
              const std::optional<U32Array>& checksums, std::string_view checksum_kind,
              const std::optional<U32Array>& files) {
  check_count(checksums, offsets.size(), "checksums");
  check_count(files, offsets.size(), "files");
  return run(reader, {.ranges = {span_of(offsets), span_of(sizes)},
                      .out = writable_bytes_of(out),
                      .places = span_of(places),
                      .checksums = span_or_empty(checksums),
                      .checksum_kind = checksum_kind_of(checksum_kind),
                      .files = span_or_empty(files)});
}

Failures read_into(Reader& reader, const U64Array& offsets, const U64Array& sizes,
                   const std::vector<WritableBuffer>& outs,
                   const std::optional<U32Array>& checksums, std::string_view checksum_kind,
                   const std::optional<U32Array>& files) {
  check_count(checksums, offsets.size(), "checksums");
  check_count(files, offsets.size(), "files");
  const std::vector<std::byte*> destinations = addresses_of(outs, span_of(sizes));
  return run(reader, {.ranges = {span_of(offsets), span_of(sizes)},
                      .out = {},
                      .places = {},
                      .checksums = span_or_empty(checksums),
                      .checksum_kind = checksum_kind_of(checksum_kind),
                      .destinations = destinations,
                      .files = span_or_empty(files)});
}

std::size_t count_cached(const Reader& reader, const U64Array& offsets,
                         const std::optional<U32Array>& files) {
  check_count(files, offsets.size(), "files");
  Result<std::size_t> count = [&] {
    const Unlocked unlocked(offsets.size() > 64);  // a short system call each
    return reader.core->count_cached(span_of(offsets), span_or_empty(files));
  }();
  return value_or_throw(std::move(count));
}

}  // namespace

void bind_range_reader(nb::module_& module) {
  nb::class_<Reader>(
      module, "RangeReader",
      "Reads many ranges of a file, or of several, at once; past the page cache if wanted.")
      .def(nb::init<nb::handle, std::size_t, bool, std::string_view>(), nb::arg("path"),
           nb::kw_only(), nb::arg("queue_depth") = 64, nb::arg("direct") = false,
           nb::arg("engine") = "auto",
           nb::sig("def __init__(self, path: str | list[str] | tuple[str, ...], *, "
                   "queue_depth: int = 64, direct: bool = False, "
                   "engine: typing.Literal['auto', 'io_uring', 'threads'] = 'auto') -> None"))
      .def_prop_ro(
          "engine", [](const Reader& reader) { return read_engine_name(reader.core->engine()); },
          nb::sig("def engine(self) -> typing.Literal['io_uring', 'threads']"),
          "What is in use: io_uring or threads.")
      .def_prop_ro(
          "is_direct", [](const Reader& reader) { return reader.core->is_direct(); },
          "The page cache is passed by; False where the file system refused.")
      .def_prop_ro(
          "size", [](const Reader& reader) { return value_or_throw(reader.core->size()); },
          "Bytes of the (first) file as it is now.")
      .def_prop_ro(
          "files", [](const Reader& reader) { return reader.core->files(); }, "How many files.")
      .def("read", read, nb::arg("offsets").noconvert(), nb::arg("sizes").noconvert(),
           nb::arg("out").noconvert(), nb::arg("places").noconvert(),
           nb::arg("checksums").noconvert() = nb::none(), nb::arg("checksum_kind") = "crc32c",
           nb::arg("files").noconvert() = nb::none(),
           "Read range i into out from places[i] on and check it where checksums are given.\n\n"
           "Of several files, files[i] says which one range i is of. Gives (position, code, "
           "detail) of those that could not be read.")
      .def("read_into", read_into, nb::arg("offsets").noconvert(), nb::arg("sizes").noconvert(),
           nb::arg("outs"), nb::arg("checksums").noconvert() = nb::none(),
           nb::arg("checksum_kind") = "crc32c", nb::arg("files").noconvert() = nb::none(),
           "Like read, but range i goes to outs[i], a writable buffer of exactly its size.")
      .def("count_cached", count_cached, nb::arg("offsets").noconvert(),
           nb::arg("files").noconvert() = nb::none(),
           "How many of these bytes are in the page cache; NativeError 'unsupported' where the "
           "system cannot tell.");
}

}  // namespace headrace::bindings
