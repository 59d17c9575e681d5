#include "headrace/formats/ffcv_order.hpp"

#include <bit>
#include <limits>
#include <new>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

namespace headrace {
namespace {

using Pages = std::span<const std::int64_t>;  // where each begins, and where the last one ends

std::size_t count_pages(Pages page_starts) noexcept { return page_starts.size() - 1; }

std::size_t start_of(Pages page_starts, std::size_t page) noexcept {
  return static_cast<std::size_t>(page_starts[page]);
}

Status check(std::span<const std::int64_t> samples, Pages page_starts, std::size_t pool,
             std::span<const std::int64_t> order) noexcept {
  if (pool == 0) return Status(Code::invalid_argument, "the pool must have room for a page");
  if (order.size() != samples.size()) {
    return Status(Code::invalid_argument, "the order must have one entry for each sample");
  }
  constexpr std::size_t kMost = std::numeric_limits<std::uint32_t>::max();
  if (samples.size() >= kMost || page_starts.size() >= kMost) {
    return Status(Code::too_large, "there are more than 4294967294 samples or pages");
  }
  if (page_starts.empty() || page_starts.front() != 0 ||
      page_starts.back() != static_cast<std::int64_t>(samples.size())) {
    return Status(Code::invalid_argument,
                  "the pages must begin at the first sample and end behind the last one");
  }
  for (std::size_t p = 0; p < count_pages(page_starts); ++p) {
    if (page_starts[p] <= page_starts[p + 1]) continue;
    return Status(Code::invalid_argument, Detail("page ") << p << " ends before it begins",
                  static_cast<std::int64_t>(p));
  }
  return {};
}

// A number up to `last`, from the highest bits of words.
std::size_t from_high_bits(std::mt19937& words, std::size_t last) noexcept {
  const int shift = 32 - static_cast<int>(std::bit_width(last + 1));
  std::size_t value;
  do {
    value = words() >> shift;
  } while (value > last);
  return value;
}

// A number up to `last`, from the lowest bits of words; no word where there is no choice.
std::size_t from_low_bits(std::mt19937& words, std::size_t last) noexcept {
  if (last == 0) return 0;
  const std::size_t mask = (std::size_t{1} << std::bit_width(last)) - 1;
  std::size_t value;
  do {
    value = words() & mask;
  } while (value > last);
  return value;
}

void shuffle_pages(std::span<std::int64_t> samples, Pages page_starts,
                   std::uint32_t seed) noexcept {
  std::mt19937 words(seed);
  for (std::size_t p = 0; p < count_pages(page_starts); ++p) {
    std::int64_t* page = samples.data() + page_starts[p];
    const auto size = static_cast<std::size_t>(page_starts[p + 1] - page_starts[p]);
    for (std::size_t i = size; i-- > 1;) std::swap(page[i], page[from_high_bits(words, i)]);
  }
}

// The samples of a page that are left.
struct OpenPage {
  std::size_t next;
  std::size_t end;
};

void draw(std::span<const std::int64_t> samples, Pages page_starts, std::uint32_t seed,
          std::size_t pool, std::span<std::int64_t> order) {
  std::mt19937 words(seed);
  std::vector<std::uint32_t> pages(count_pages(page_starts));
  std::iota(pages.begin(), pages.end(), 0U);
  for (std::size_t i = pages.size(); i-- > 1;) std::swap(pages[i], pages[from_low_bits(words, i)]);
  auto waiting = pages.cbegin();
  std::vector<OpenPage> open;
  for (std::int64_t& sample : order) {
    for (; open.size() < pool && waiting != pages.cend(); ++waiting) {
      const OpenPage page{start_of(page_starts, *waiting), start_of(page_starts, *waiting + 1)};
      if (page.next < page.end) open.push_back(page);
    }
    const std::size_t at = from_low_bits(words, open.size() - 1);
    sample = samples[open[at].next++];
    // The others keep their order: which one a number means depends on it.
    if (open[at].next == open[at].end) open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
  }
}

}  // namespace

Status quasi_random_order_ffcv(std::span<std::int64_t> samples,
                               std::span<const std::int64_t> page_starts, std::uint32_t seed,
                               std::size_t pool, std::span<std::int64_t> order) noexcept {
  if (Status status = check(samples, page_starts, pool, order); !status.is_ok()) return status;
  shuffle_pages(samples, page_starts, seed);
  try {
    draw(samples, page_starts, seed, pool, order);
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the list of pages");
  }
  return {};
}

}  // namespace headrace
