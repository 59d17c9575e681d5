#include "gpu/slots.hpp"

#include <new>

namespace headrace::gpu {
namespace {

// After so many batches it is decided again whether slots are busy.
constexpr std::size_t kCountedBatches = 8;
// They are when they were idle for less than this part of the time.
constexpr int kBusyFactor = 4;

}  // namespace

Slots::Slots(Device& device, std::size_t threads) : device_(device), threads_(threads) {
  free_.reserve(kMost);
}

Slots::~Slots() {
  for (const std::unique_ptr<Slot>& slot : free_) {
    device_.destroy(slot->stream);
    slot->blob.free(device_);
    slot->status.free(device_);
    slot->staging.free(device_);
    slot->memory.free(device_);
  }
}

Result<std::unique_ptr<Slot>> Slots::make() noexcept {
  try {
    auto slot = std::make_unique<Slot>();
    slot->scratch.resize(threads_);
    const auto stream = device_.make_stream();
    if (!stream.is_ok()) return stream.status();
    slot->stream = stream.value();
    return slot;
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory to prepare batches for the GPU");
  }
}

Result<Slot*> Slots::take() noexcept {
  {
    std::unique_lock lock(mutex_);
    has_free_.wait(lock, [this] { return !free_.empty() || in_use_ < kMost; });
    count_batch();
    ++in_use_;
    if (!free_.empty()) {
      Slot* const slot = free_.back().release();
      free_.pop_back();
      return slot;
    }
  }
  auto made = make();
  if (made.is_ok()) return made.value().release();
  {
    const std::lock_guard lock(mutex_);
    --in_use_;
  }
  has_free_.notify_one();
  return made.status();
}

void Slots::give_back(Slot& slot) noexcept {
  {
    const std::lock_guard lock(mutex_);
    free_.emplace_back(&slot);
    --in_use_;
    last_use_ = Clock::now();
  }
  has_free_.notify_one();
}

bool Slots::is_busy() noexcept {
  const std::lock_guard lock(mutex_);
  return is_busy_;
}

void Slots::count_batch() noexcept {
  const Clock::time_point now = Clock::now();
  if (in_use_ == 0 && batches_ != 0) idle_ += now - last_use_;
  if (batches_++ == 0) counting_since_ = now;
  if (batches_ <= kCountedBatches) return;
  is_busy_ = idle_ * kBusyFactor < now - counting_since_;
  counting_since_ = now;
  idle_ = {};
  batches_ = 1;
}

void Slots::free_memory(Slot& slot) noexcept {
  device_bytes_ -= slot.memory.size();
  slot.memory.free(device_);
}

void Slots::free_unused() noexcept {
  const std::lock_guard lock(mutex_);
  for (const std::unique_ptr<Slot>& slot : free_) free_memory(*slot);
}

Status Slots::grow_memory(Slot& slot, std::size_t size) noexcept {
  if (slot.memory.size() >= size) return {};
  free_memory(slot);
  Status status = slot.memory.grow(device_, with_margin(size));
  if (status.code() == Code::out_of_memory) {
    free_unused();
    status = slot.memory.grow(device_, size);
  }
  device_bytes_ += slot.memory.size();
  return status;
}

}  // namespace headrace::gpu
