#include "headrace/formats/tar.hpp"

#include <nanobind/stl/string.h>
#include <nanobind/stl/string_view.h>
#include <nanobind/stl/tuple.h>

#include <string>
#include <tuple>
#include <vector>

#include "bindings.hpp"

namespace headrace::bindings {
namespace {

using Bounds = Array<const std::int64_t, nb::ndim<1>>;
using Facts = Array<const std::int64_t, nb::ndim<2>>;

constexpr std::size_t kFacts = 4;  // mode, uid, gid, mtime_ns

nb::bytes to_bytes(const TarPart& part) {
  return nb::bytes(part.bytes().data(), part.bytes().size());
}

nb::bytes tar_header(std::string_view name, bool is_directory, std::uint32_t mode, std::int64_t uid,
                     std::int64_t gid, std::int64_t mtime_ns, std::uint64_t size,
                     bool has_exact_times) {
  TarPart part(has_exact_times);
  throw_if_error(part.add_header({name, is_directory, mode, uid, gid, size, mtime_ns}));
  return to_bytes(part);
}

std::vector<std::string> strings_of(const nb::list& texts) {
  std::vector<std::string> out;
  out.reserve(texts.size());
  for (nb::handle text : texts) out.push_back(nb::cast<std::string>(text));
  return out;
}

// File names, as Python itself turns str into them.
std::vector<std::string> paths_of(const nb::list& paths) {
  std::vector<std::string> out;
  out.reserve(paths.size());
  for (nb::handle path : paths) {
    PyObject* encoded = nullptr;
    if (PyUnicode_FSConverter(path.ptr(), &encoded) == 0) throw nb::python_error();
    const nb::object owner = nb::steal(encoded);
    out.emplace_back(PyBytes_AsString(encoded));
  }
  return out;
}

nb::bytes tar_members(const nb::list& names, const Facts& facts, const ByteArray& contents,
                      const Bounds& bounds, bool has_exact_times) {
  const std::vector<std::string> texts = strings_of(names);
  const std::span<const std::int64_t> ends = span_of(bounds);
  if (facts.shape(0) != texts.size() || facts.shape(1) != kFacts ||
      ends.size() != texts.size() + 1) {
    throw_invalid(Detail("facts and bounds must fit the names"));
  }
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (ends[i] < 0 || ends[i] > ends[i + 1]) throw_invalid(Detail("bounds must ascend"));
  }
  if (ends.back() > static_cast<std::int64_t>(contents.size())) {
    throw_invalid(Detail("bounds lead out of the contents"));
  }
  TarPart part(has_exact_times);
  Status status;
  {
    nb::gil_scoped_release unlocked;
    const std::int64_t* row = facts.data();
    for (std::size_t i = 0; i < texts.size() && status.is_ok(); ++i, row += kFacts) {
      const auto start = static_cast<std::size_t>(ends[i]);
      const ByteSpan content =
          bytes_of(contents).subspan(start, static_cast<std::size_t>(ends[i + 1]) - start);
      const auto mode = static_cast<std::uint32_t>(row[0] & 07777);
      status = part.add({texts[i], false, mode, row[1], row[2], 0, row[3]}, content);
    }
  }
  throw_if_error(status);
  return to_bytes(part);
}

std::tuple<nb::bytes, std::size_t, std::uint64_t> tar_files(const nb::list& paths,
                                                            const nb::list& names,
                                                            std::uint64_t most_bytes,
                                                            bool has_exact_times) {
  const std::vector<std::string> files = paths_of(paths);
  const std::vector<std::string> texts = strings_of(names);
  if (files.size() != texts.size()) throw_invalid(Detail("each path needs a name"));
  TarPart part(has_exact_times);
  std::size_t taken = 0;
  {
    nb::gil_scoped_release unlocked;
    while (taken < files.size() &&
           part.add_from_disk(files[taken].c_str(), texts[taken], most_bytes).is_ok()) {
      ++taken;
    }
  }
  return {to_bytes(part), taken, part.content_bytes()};
}

}  // namespace

void bind_tar(nb::module_& module) {
  module.def("tar_header", tar_header, nb::arg("name"), nb::arg("is_directory"), nb::arg("mode"),
             nb::arg("uid"), nb::arg("gid"), nb::arg("mtime_ns"), nb::arg("size"),
             nb::arg("has_exact_times"),
             "The header of a member of a tar, with records of pax where it needs them.");
  module.def("tar_members", tar_members, nb::arg("names"), nb::arg("facts").noconvert(),
             nb::arg("contents").noconvert(), nb::arg("bounds").noconvert(),
             nb::arg("has_exact_times"),
             nb::sig("def tar_members(names: list[str], facts: NDArray[numpy.int64], contents: "
                     "NDArray[numpy.uint8], bounds: NDArray[numpy.int64], has_exact_times: bool) "
                     "-> bytes"),
             "Files of a tar: member i is contents[bounds[i]:bounds[i + 1]], and row i of the "
             "facts is its mode, uid, gid and mtime_ns.");
  module.def("tar_files", tar_files, nb::arg("paths"), nb::arg("names"), nb::arg("most_bytes"),
             nb::arg("has_exact_times"),
             nb::sig("def tar_files(paths: list[str], names: list[str], most_bytes: int, "
                     "has_exact_times: bool) -> tuple[bytes, int, int]"),
             "Files and directories of the disk as members of a tar, up to the first that cannot "
             "be read or is larger than most_bytes; how many they are, and bytes of their "
             "contents.");
}

}  // namespace headrace::bindings
