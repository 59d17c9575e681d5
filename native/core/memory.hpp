// Memory that is used from image to image and only ever grows.
#pragma once

#include <cstddef>
#include <vector>

namespace headrace {

// Throws std::bad_alloc.
template <typename T>
void grow(std::vector<T>& memory, std::size_t size) {
  if (memory.size() < size) memory.resize(size);
}

}  // namespace headrace
