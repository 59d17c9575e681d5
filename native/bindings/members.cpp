#include "headrace/formats/members.hpp"

#include <nanobind/stl/string.h>

#include <algorithm>
#include <optional>
#include <string>

#include "bindings.hpp"
#include "headrace/formats/tar_scan.hpp"
#include "headrace/formats/zip_scan.hpp"

namespace headrace::bindings {
namespace {

template <typename T>
NewArray<T, 1> copied(const std::vector<T>& values) {
  ResultMemory<T> memory(values.size());
  std::copy(values.begin(), values.end(), memory.span().begin());
  return memory.to_array();
}

nb::bytes as_bytes(std::string_view text) { return nb::bytes(text.data(), text.size()); }

// A scanner and the memory that it looks at.
class Scan {
 public:
  Scan(ByteArray tar, bool makes_checksums)
      : tar_(std::move(tar)), scanner_(bytes_of(tar_), makes_checksums) {}

  bool advance(std::size_t headers) {
    Status status;
    {
      nb::gil_scoped_release unlocked;
      status = scanner_.advance(headers);
    }
    throw_if_error(status);
    return !scanner_.is_done();
  }
  [[nodiscard]] const TarScanner& scanner() const { return scanner_; }

 private:
  ByteArray tar_;
  TarScanner scanner_;
};

nb::list notes_of(const Scan& scan) {
  nb::list out;
  for (const TarNote& note : scan.scanner().notes()) {
    out.append(nb::make_tuple(nb::str(note.reason.data(), note.reason.size()), note.count,
                              as_bytes(note.example)));
  }
  return out;
}

void scan(ZipFiles& files, const ByteArray& zip) {
  Status status;
  {
    nb::gil_scoped_release unlocked;
    files = {};
    status = scan_zip(bytes_of(zip), files);
  }
  throw_if_error(status);
}

MemberGroups group(const TextList& names) {
  std::optional<Result<MemberGroups>> found;
  {
    nb::gil_scoped_release unlocked;
    found.emplace(group_members(names));
  }
  return value_or_throw(std::move(*found));
}

}  // namespace

void bind_members(nb::module_& module) {
  nb::class_<TextList>(module, "TextList", "Texts one after the other, as bytes.")
      .def("__len__", &TextList::size, "Number of texts.")
      .def(
          "__getitem__",
          [](const TextList& list, std::size_t i) {
            if (i >= list.size()) throw nb::index_error("no such text");
            return as_bytes(list[i]);
          },
          nb::arg("index"), "One of them.")
      .def_prop_ro(
          "text", [](const TextList& list) { return as_bytes(list.text); }, "All of them.")
      .def_prop_ro(
          "ends", [](const TextList& list) { return copied(list.ends); }, nb::rv_policy::automatic,
          nb::sig("def ends(self) -> NDArray[numpy.uint64]"), "Where each ends.");
  nb::class_<MemberGroups>(module, "MemberGroups", "Which files make up a sample, by their names.")
      .def_prop_ro(
          "groups", [](const MemberGroups& found) { return copied(found.groups); },
          nb::rv_policy::automatic, nb::sig("def groups(self) -> NDArray[numpy.uint32]"),
          "Number of the sample of each file.")
      .def_prop_ro(
          "columns", [](const MemberGroups& found) { return copied(found.columns); },
          nb::rv_policy::automatic, nb::sig("def columns(self) -> NDArray[numpy.uint16]"),
          "Number of the ending of each file; 65535: it is in no sample.")
      .def_prop_ro(
          "endings", [](const MemberGroups& found) -> const TextList& { return found.endings; },
          nb::rv_policy::reference_internal, "Endings, in lower case.")
      .def_prop_ro(
          "keys", [](const MemberGroups& found) -> const TextList& { return found.keys; },
          nb::rv_policy::reference_internal, "Names of the samples.")
      .def_ro("repeated", &MemberGroups::repeated,
              "The first file whose sample has its ending already, or -1.")
      .def_ro("apart", &MemberGroups::apart,
              "The first file of a sample whose key was that of an earlier one, or -1.");
  module.def("group_members", group, nb::arg("names"),
             "Samples as WebDataset makes them; the offset of a failure is a file.");
  nb::class_<Scan>(module, "TarScanner", "Finds the files of a tar by its headers.")
      .def(nb::init<ByteArray, bool>(), nb::arg("tar").noconvert(),
           nb::arg("makes_checksums") = false)
      .def("advance", &Scan::advance, nb::arg("headers"),
           "Read so many headers more; False when the end was reached.")
      .def_prop_ro(
          "position", [](const Scan& scan) { return scan.scanner().position(); },
          "Bytes that were passed.")
      .def_prop_ro(
          "offsets", [](const Scan& scan) { return copied(scan.scanner().offsets()); },
          nb::rv_policy::automatic, nb::sig("def offsets(self) -> NDArray[numpy.uint64]"),
          "Where contents begin.")
      .def_prop_ro(
          "sizes", [](const Scan& scan) { return copied(scan.scanner().sizes()); },
          nb::rv_policy::automatic, nb::sig("def sizes(self) -> NDArray[numpy.uint64]"),
          "Bytes of contents.")
      .def_prop_ro(
          "checksums", [](const Scan& scan) { return copied(scan.scanner().checksums()); },
          nb::rv_policy::automatic, nb::sig("def checksums(self) -> NDArray[numpy.uint32]"),
          "CRC-32C of contents, where they are made.")
      .def_prop_ro(
          "names", [](const Scan& scan) -> const TextList& { return scan.scanner().names(); },
          nb::rv_policy::reference_internal, "Names of the files.")
      .def_prop_ro("notes", notes_of, nb::sig("def notes(self) -> list[tuple[str, int, bytes]]"),
                   "What is no regular file: why, how many, and the name of one.")
      .def_prop_ro(
          "name", [](const Scan& scan) { return as_bytes(scan.scanner().name()); },
          "The name that the last header said.");
  nb::class_<ZipFiles>(module, "ZipFiles", "The files of a zip.")
      .def(nb::init<>())
      .def("scan", scan, nb::arg("zip").noconvert(), "Read the list of files of a zip.")
      .def_prop_ro(
          "offsets", [](const ZipFiles& files) { return copied(files.offsets); },
          nb::rv_policy::automatic, nb::sig("def offsets(self) -> NDArray[numpy.uint64]"),
          "Where the stored bytes begin.")
      .def_prop_ro(
          "sizes", [](const ZipFiles& files) { return copied(files.sizes); },
          nb::rv_policy::automatic, nb::sig("def sizes(self) -> NDArray[numpy.uint64]"),
          "How many bytes are stored.")
      .def_prop_ro(
          "full_sizes", [](const ZipFiles& files) { return copied(files.full_sizes); },
          nb::rv_policy::automatic, nb::sig("def full_sizes(self) -> NDArray[numpy.uint64]"),
          "How many bytes they become.")
      .def_prop_ro(
          "checksums", [](const ZipFiles& files) { return copied(files.checksums); },
          nb::rv_policy::automatic, nb::sig("def checksums(self) -> NDArray[numpy.uint32]"),
          "CRC-32 of the files.")
      .def_prop_ro(
          "methods", [](const ZipFiles& files) { return copied(files.methods); },
          nb::rv_policy::automatic, nb::sig("def methods(self) -> NDArray[numpy.uint8]"),
          "0: stored; 8: deflated.")
      .def_prop_ro(
          "names", [](const ZipFiles& files) -> const TextList& { return files.names; },
          nb::rv_policy::reference_internal, "Names of the files.")
      .def_ro("special", &ZipFiles::special, "How many links and devices are left out.")
      .def_prop_ro(
          "failed", [](const ZipFiles& files) { return as_bytes(files.failed); },
          "The name of the file that a failure is about.");
}

}  // namespace headrace::bindings
