// What there is to tell of the images of one batch, from all workers. It is rare: a lock is cheap
// enough.
#pragma once

#include <algorithm>
#include <mutex>
#include <new>
#include <vector>

#include "headrace/status.hpp"

namespace headrace {

template <typename Entry>
class SharedList {
 public:
  explicit SharedList(std::vector<Entry>& entries) noexcept : entries_(entries) {}

  void add(const Entry& entry) noexcept {
    const std::lock_guard lock(mutex_);
    try {
      entries_.push_back(entry);
    } catch (const std::bad_alloc&) {
      is_complete_ = false;
    }
  }

  // By position; only when no worker adds any more.
  Status finish() noexcept {
    if (!is_complete_) return Status(Code::out_of_memory, "no memory for the list of failures");
    std::sort(entries_.begin(), entries_.end(),
              [](const Entry& a, const Entry& b) { return a.position < b.position; });
    return {};
  }

 private:
  std::mutex mutex_;
  std::vector<Entry>& entries_;
  bool is_complete_ = true;
};

}  // namespace headrace
