// Memory-mapped files that become shorter while they are in use.
//
// To touch a mapped page that the file no longer has raises SIGBUS, which ends the process. A guard
// makes such a page read as zeros instead and counts it: native code and Python go on, and whoever
// reads asks `faults` afterwards and reports that the bytes were not the file's. The same happens
// when the disk or network cannot deliver a page.
//
// Who calls: any thread makes, asks and destroys guards, and any thread may touch guarded memory.
// Who closes: the owner of the memory destroys the guard before it unmaps. The handler of the
// process is set with the first guard and stays; it passes on what does not concern a guard to the
// handler that was there before, or ends the process as if there were none. One thing besides
// concerns it: what SQLite maps of the log of an archive that somebody else writes (X-shm). A
// handler that is set later by somebody else comes first, until the next guard is made. After
// fork() the child's guards work on.
#pragma once

#include <cstddef>
#include <cstdint>

#include "headrace/bytes.hpp"
#include "headrace/status.hpp"

namespace headrace {

class MappingGuard {
 public:
  // The bytes of a read-only mapping, from its first to its last. Fails with `out_of_memory` when
  // there is no place for another guard.
  static Result<MappingGuard> create(ByteSpan mapped) noexcept;

  MappingGuard(MappingGuard&& other) noexcept : entry_(other.entry_) { other.entry_ = nullptr; }
  MappingGuard& operator=(MappingGuard&&) = delete;
  ~MappingGuard();

  // Pages of this mapping that could not be read in this process, so far.
  [[nodiscard]] std::uint64_t faults() const noexcept;

  struct Entry;

 private:
  explicit MappingGuard(Entry* entry) noexcept : entry_(entry) {}

  Entry* entry_;  // null for no bytes
};

}  // namespace headrace
