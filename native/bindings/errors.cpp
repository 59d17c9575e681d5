// The only place where a status becomes a Python exception.
#include <nanobind/stl/string.h>

#include <cerrno>
#include <string>
#include <string_view>

#include "bindings.hpp"
#include "buffer.hpp"

namespace headrace::bindings {
namespace {

constexpr const char* kDoc =
    "Failure of a native call: code (a short name), offset (byte or row, -1 if none), detail.";

// Lives as long as the module; set once, while the module is imported.
PyObject* native_error = nullptr;

}  // namespace

void bind_errors(nb::module_& module) {
  // Defaults, so that the stub generator sees the attributes and their types.
  nb::dict members;
  members["code"] = "";
  members["offset"] = -1;
  members["detail"] = "";
  const std::string name = nb::cast<std::string>(module.attr("__name__")) + ".NativeError";
  native_error = PyErr_NewExceptionWithDoc(name.c_str(), kDoc, PyExc_ValueError, members.ptr());
  if (native_error == nullptr) throw nb::python_error();
  module.attr("NativeError") = nb::borrow(native_error);
}

void throw_if_error(const Status& status) {
  if (status.is_ok()) return;
  const std::string_view code = code_name(status.code());
  // It may quote a file, which may hold anything.
  const nb::object detail = nb::steal(PyUnicode_DecodeUTF8(
      status.detail().data(), static_cast<Py_ssize_t>(status.detail().size()), "backslashreplace"));
  if (!detail.is_valid()) throw nb::python_error();
  nb::object error = nb::borrow(native_error)(detail);
  error.attr("code") = nb::str(code.data(), code.size());
  error.attr("offset") = status.offset();
  error.attr("detail") = detail;
  PyErr_SetObject(native_error, error.ptr());
  throw nb::python_error();
}

void throw_os_error(int error, const char* path) {
  errno = error;
  PyErr_SetFromErrnoWithFilename(PyExc_OSError, path);
  throw nb::python_error();
}

std::vector<std::byte*> addresses_of(const std::vector<WritableBuffer>& buffers,
                                     std::span<const std::uint64_t> sizes) {
  if (buffers.size() != sizes.size()) {
    throw_invalid(Detail() << buffers.size() << " outputs for " << sizes.size() << " sizes");
  }
  std::vector<std::byte*> addresses;
  addresses.reserve(buffers.size());
  for (std::size_t i = 0; i < buffers.size(); ++i) {
    if (buffers[i].bytes().size() != sizes[i]) {
      throw_if_error(Status(Code::invalid_argument,
                            Detail("output ") << i << " has " << buffers[i].bytes().size()
                                              << " bytes, " << sizes[i] << " are wanted",
                            static_cast<std::int64_t>(i)));
    }
    addresses.push_back(buffers[i].data());
  }
  return addresses;
}

void throw_invalid(const Detail& detail) {
  throw_if_error(Status(Code::invalid_argument, detail));
  throw nb::value_error("unreachable");
}

}  // namespace headrace::bindings
