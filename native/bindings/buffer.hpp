// Arguments that may be any object with a contiguous buffer: bytes, memoryview, mmap, ndarray.
#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "headrace/bytes.hpp"

namespace headrace::bindings {

// Holds the buffer of an object; the object cannot resize or free it meanwhile.
class Buffer {
 public:
  Buffer() noexcept : view_() {}
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  Buffer(Buffer&& other) noexcept : view_(other.view_) { other.view_.obj = nullptr; }
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(view_, other.view_);
    return *this;
  }
  ~Buffer() {
    if (view_.obj != nullptr) PyBuffer_Release(&view_);
  }

  // False, without a Python error, when the object has no such buffer.
  [[nodiscard]] bool acquire(nanobind::handle object, int flags = PyBUF_SIMPLE) noexcept {
    if (PyObject_GetBuffer(object.ptr(), &view_, flags) == 0) return true;
    PyErr_Clear();
    view_.obj = nullptr;
    return false;
  }

  [[nodiscard]] ByteSpan bytes() const noexcept {
    return {static_cast<const std::byte*>(view_.buf), static_cast<std::size_t>(view_.len)};
  }

 protected:
  Py_buffer view_;
};

// The same for objects that can be written to.
class WritableBuffer : public Buffer {
 public:
  [[nodiscard]] bool acquire(nanobind::handle object) noexcept {
    return Buffer::acquire(object, PyBUF_WRITABLE);
  }

  [[nodiscard]] std::byte* data() const noexcept { return static_cast<std::byte*>(view_.buf); }
};

// Where buffers are, each of them checked to have exactly the size that is wanted.
[[nodiscard]] std::vector<std::byte*> addresses_of(const std::vector<WritableBuffer>& buffers,
                                                   std::span<const std::uint64_t> sizes);

}  // namespace headrace::bindings

namespace nanobind::detail {

template <>
struct type_caster<headrace::bindings::Buffer> {
  NB_TYPE_CASTER(headrace::bindings::Buffer, const_name("typing_extensions.Buffer"))

  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
    return value.acquire(source);
  }
};

template <>
struct type_caster<headrace::bindings::WritableBuffer> {
  NB_TYPE_CASTER(headrace::bindings::WritableBuffer, const_name("typing_extensions.Buffer"))

  bool from_python(handle source, std::uint32_t, cleanup_list*) noexcept {
    return value.acquire(source);
  }
};

}  // namespace nanobind::detail
