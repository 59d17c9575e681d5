#include "headrace/interleave.hpp"

#include <algorithm>
#include <cstddef>

namespace headrace {
namespace {

constexpr std::uint64_t kMostTotal = std::uint64_t{1} << 62;
constexpr std::size_t kMostThings = 65535;

// Numbers of things, the one that comes first on top; memory is the caller's.
template <typename Later>
class Heap {
 public:
  Heap(std::span<std::uint16_t> memory, Later later) noexcept : memory_(memory), later_(later) {}

  [[nodiscard]] bool empty() const noexcept { return size_ == 0; }
  [[nodiscard]] std::uint16_t top() const noexcept { return memory_.front(); }

  void push(std::uint16_t thing) noexcept {
    memory_[size_++] = thing;
    std::push_heap(memory_.begin(), end(), later_);
  }

  std::uint16_t pop() noexcept {
    std::pop_heap(memory_.begin(), end(), later_);
    return memory_[--size_];
  }

 private:
  [[nodiscard]] auto end() const noexcept {
    return memory_.begin() + static_cast<std::ptrdiff_t>(size_);
  }

  std::span<std::uint16_t> memory_;
  Later later_;
  std::size_t size_ = 0;
};

// Where the next item begins: one step of total / share further.
void advance(Turn& turn, std::uint64_t total) noexcept {
  turn.release += total / turn.share;
  turn.remainder += total % turn.share;
  if (turn.remainder >= turn.share) {
    turn.remainder -= turn.share;
    ++turn.release;
  }
}

void set_deadline(Turn& turn, std::uint64_t total) noexcept {
  Turn next = turn;
  advance(next, total);
  turn.deadline = next.release + (next.remainder > 0 ? 1 : 0);
}

}  // namespace

Status interleave(std::span<const std::uint64_t> shares, std::span<Turn> turns,
                  std::span<std::uint16_t> waiting, std::span<std::uint16_t> ready,
                  std::span<std::uint16_t> out) noexcept {
  const std::size_t count = shares.size();
  if (count > kMostThings || turns.size() < count || waiting.size() < count ||
      ready.size() < count) {
    return Status(Code::invalid_argument, Detail("too many shares"));
  }
  std::uint64_t total = 0;
  for (const std::uint64_t share : shares) {
    if (share > kMostTotal || total > kMostTotal - share) {
      return Status(Code::invalid_argument, Detail("the shares are too large"));
    }
    total += share;
  }
  if (total == 0) {
    return Status(Code::invalid_argument, Detail("all shares are zero"));
  }
  Heap due(waiting, [turns](std::uint16_t a, std::uint16_t b) {
    return turns[a].release != turns[b].release ? turns[a].release > turns[b].release : a > b;
  });
  Heap urgent(ready, [turns](std::uint16_t a, std::uint16_t b) {
    return turns[a].deadline != turns[b].deadline ? turns[a].deadline > turns[b].deadline : a > b;
  });
  for (std::size_t i = 0; i < count; ++i) {
    turns[i] = Turn{.share = shares[i]};
    if (shares[i] > 0) {
      set_deadline(turns[i], total);
      due.push(static_cast<std::uint16_t>(i));
    }
  }
  for (std::size_t place = 0; place < out.size(); ++place) {
    while (!due.empty() && turns[due.top()].release <= place) {
      urgent.push(due.pop());
    }
    // Never empty: of the items that may have come by now there are more than places before.
    const std::uint16_t thing = urgent.empty() ? due.pop() : urgent.pop();
    out[place] = thing;
    advance(turns[thing], total);
    set_deadline(turns[thing], total);
    due.push(thing);
  }
  return {};
}

}  // namespace headrace
