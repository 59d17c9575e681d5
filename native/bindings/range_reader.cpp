#include "penstock/range_reader.hpp"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string_view.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "bindings.hpp"

namespace penstock::bindings {
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

ChecksumKind kind_of(std::string_view name) {
  const auto kind = parse_checksum_kind(name);
  if (!kind) {
    throw_if_error(Status(Code::invalid_argument, Detail("unknown checksum_kind '")
                                                      << name << "'; known are crc32c and crc32"));
  }
  return *kind;
}

// Any name the system can have, as os.fsencode gives it; a NUL in it is a ValueError.
std::string path_of(nb::handle path) {
  PyObject* bytes = nullptr;
  if (PyUnicode_FSConverter(path.ptr(), &bytes) == 0) throw nb::python_error();
  const nb::object owner = nb::steal(bytes);
  return PyBytes_AsString(bytes);
}

std::unique_ptr<RangeReader> open_reader(const std::string& path, std::size_t queue_depth,
                                         bool direct, std::string_view engine) {
  const ReaderOptions options{queue_depth, direct, engine_of(engine)};
  Result<std::unique_ptr<RangeReader>> reader = [&] {
    nb::gil_scoped_release unlocked;
    return RangeReader::open(path.c_str(), options);
  }();
  const Status& status = reader.status();
  if (status.code() == Code::io_error && status.offset() > 0) {
    throw_os_error(static_cast<int>(status.offset()), path.c_str());
  }
  return std::move(value_or_throw(std::move(reader)));
}

// The calls under way use the reader, so it is closed only when its last user lets go of it.
struct Reader {
  Reader(nb::handle path, std::size_t queue_depth, bool direct, std::string_view engine)
      : core(open_reader(path_of(path), queue_depth, direct, engine)) {}

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

void check_checksums(const std::optional<U32Array>& checksums, std::size_t ranges) {
  if (checksums && checksums->size() != ranges) {
    throw_if_error(Status(Code::invalid_argument, Detail("checksums has ")
                                                      << checksums->size() << " entries for "
                                                      << ranges << " ranges"));
  }
}

// A call that is given up waits for the reads under way, and others may need the GIL meanwhile.
struct CallCloser {
  void operator()(ReadCall* call) const noexcept {
    nb::gil_scoped_release unlocked;
    delete call;
  }
};

Failures read(Reader& reader, const U64Array& offsets, const U64Array& sizes,
              const MutableByteArray& out, const U64Array& places,
              const std::optional<U32Array>& checksums, std::string_view checksum_kind) {
  check_checksums(checksums, offsets.size());
  const ReadRequest request{{span_of(offsets), span_of(sizes)},
                            writable_bytes_of(out),
                            span_of(places),
                            checksums ? span_of(*checksums) : std::span<const std::uint32_t>(),
                            kind_of(checksum_kind)};
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

}  // namespace

void bind_range_reader(nb::module_& module) {
  nb::class_<Reader>(module, "RangeReader",
                     "Reads many ranges of one file at once, past the page cache if wanted.")
      .def(nb::init<nb::handle, std::size_t, bool, std::string_view>(), nb::arg("path"),
           nb::kw_only(), nb::arg("queue_depth") = 64, nb::arg("direct") = false,
           nb::arg("engine") = "auto",
           nb::sig("def __init__(self, path: str, *, queue_depth: int = 64, direct: bool = False, "
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
          "Bytes of the file as it is now.")
      .def("read", read, nb::arg("offsets").noconvert(), nb::arg("sizes").noconvert(),
           nb::arg("out").noconvert(), nb::arg("places").noconvert(),
           nb::arg("checksums").noconvert() = nb::none(), nb::arg("checksum_kind") = "crc32c",
           "Read range i into out from places[i] on and check it where checksums are given.\n\n"
           "Gives (position, code, detail) of those that could not be read.");
}

}  // namespace penstock::bindings
