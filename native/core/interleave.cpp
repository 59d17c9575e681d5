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

std::size_t block_count(const RepeatedRow& row) noexcept {
  return row.places.size() / RepeatedRow::kBlock;
}

bool is_sound(const RepeatedRow& row) noexcept {
  return row.period > 0 && row.period <= row.places.size() &&
         row.places.size() % RepeatedRow::kBlock == 0 &&
         row.before.size() % (block_count(row) + 1) == 0;
}

Status is_unsound() noexcept {
  return Status(Code::invalid_argument, Detail("a row of things is not in whole blocks, or a place "
                                               "or number of it is out of range"));
}

// How often a thing comes before each block, and in the whole row; empty when there is none.
std::span<const std::int64_t> counts_of(const RepeatedRow& row, std::size_t thing) noexcept {
  const std::size_t count = block_count(row) + 1;
  if (thing >= row.before.size() / count) return {};
  return row.before.subspan(thing * count, count);
}

// The block that has an item of a thing. The proportions say about where; only if they do not hold
// is it looked for in all blocks. As many as there are blocks if it is in none.
std::size_t find_block(std::span<const std::int64_t> before, std::uint64_t period,
                       std::int64_t item) noexcept {
  const std::size_t end = before.size() - 1;
  const double blocks_each = static_cast<double>(period) / static_cast<double>(before.back()) /
                             static_cast<double>(RepeatedRow::kBlock);
  const auto about = [&](std::int64_t other) {
    const double block = static_cast<double>(std::max<std::int64_t>(other, 0)) * blocks_each;
    return block < static_cast<double>(end) ? static_cast<std::size_t>(block) : end;
  };
  std::size_t low = about(item - 2);
  std::size_t high = std::min(end, about(item + 3) + 1);
  if (before[low] > item || before[high] <= item) {
    low = 0;
    high = end;
  }
  const auto first = before.begin() + static_cast<std::ptrdiff_t>(low);
  const auto last = before.begin() + static_cast<std::ptrdiff_t>(high) + 1;
  const auto after = std::upper_bound(first, last, item);
  if (after == before.begin() || after == before.end()) return end;
  return static_cast<std::size_t>(after - before.begin()) - 1;
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

Status locate_in_row(const RepeatedRow& row, std::span<const std::int64_t> places,
                     std::span<std::int64_t> things, std::span<std::int64_t> counts) noexcept {
  if (!is_sound(row) || things.size() != places.size() || counts.size() != places.size()) {
    return is_unsound();
  }
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (places[i] < 0) return is_unsound();
    const std::uint64_t round = static_cast<std::uint64_t>(places[i]) / row.period;
    const std::size_t within = static_cast<std::uint64_t>(places[i]) % row.period;
    const std::uint16_t thing = row.places[within];
    const auto before = counts_of(row, thing);
    if (before.empty()) return is_unsound();
    const auto block = row.places.subspan(within / RepeatedRow::kBlock * RepeatedRow::kBlock,
                                          within % RepeatedRow::kBlock);
    const auto here = static_cast<std::uint64_t>(std::count(block.begin(), block.end(), thing));
    const auto whole = static_cast<std::uint64_t>(before.back());
    const auto blocks = static_cast<std::uint64_t>(before[within / RepeatedRow::kBlock]);
    things[i] = thing;
    counts[i] = static_cast<std::int64_t>(round * whole + blocks + here);
  }
  return {};
}

Status find_in_row(const RepeatedRow& row, std::uint16_t thing,
                   std::span<const std::int64_t> numbers, std::span<std::int64_t> out) noexcept {
  if (!is_sound(row) || out.size() != numbers.size()) return is_unsound();
  if (numbers.empty()) return {};
  const auto before = counts_of(row, thing);
  if (before.empty() || before.back() <= 0) return is_unsound();
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (numbers[i] < 0) return is_unsound();
    const auto round = static_cast<std::uint64_t>(numbers[i] / before.back());
    const std::int64_t within = numbers[i] % before.back();
    const std::size_t block = find_block(before, row.period, within);
    if (block >= block_count(row)) return is_unsound();
    std::int64_t left = within - before[block];
    std::size_t place = block * RepeatedRow::kBlock;
    const std::size_t end = place + RepeatedRow::kBlock;
    while (place < end && (row.places[place] != thing || left-- > 0)) ++place;
    if (place == end) return is_unsound();
    out[i] = static_cast<std::int64_t>(round * row.period + place);
  }
  return {};
}

}  // namespace headrace
