#include "headrace/io/mapping_guard.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <new>

namespace headrace {

// A range that the handler looks at without a lock. `version` is 0 while the entry is not in use,
// and otherwise never the same twice. An entry that changes while the handler reads it is not the
// one it looks for: guarded memory that is being read has its guard.
struct MappingGuard::Entry {
  std::atomic<std::uint64_t> version{0};
  std::atomic<bool> is_taken{false};
  std::atomic<std::uintptr_t> begin{0};
  std::atomic<std::uintptr_t> end{0};
  std::atomic<std::uint64_t> faults{0};
};

namespace {

using Entry = MappingGuard::Entry;

// Never freed: the handler may be looking at it.
struct Table {
  static constexpr std::size_t kSize = 64;
  Entry entries[kSize];
  std::atomic<Table*> next{nullptr};
};

constinit Table first_table;
constinit std::atomic<std::uint64_t> last_version{0};
// What was there before our handler, or null for nothing. Replaced ones are never freed either.
constinit std::atomic<const struct sigaction*> previous{nullptr};
// Thread that is in the previous handler: one that raises the signal again comes back to ours.
constinit std::atomic<long> passing_thread{0};

static_assert(std::atomic<std::uintptr_t>::is_always_lock_free &&
              std::atomic<std::uint64_t>::is_always_lock_free);

bool has(const Entry& entry, std::uintptr_t address) noexcept {
  const std::uint64_t before = entry.version.load(std::memory_order_acquire);
  if (before == 0) return false;
  const std::uintptr_t begin = entry.begin.load(std::memory_order_acquire);
  const std::uintptr_t end = entry.end.load(std::memory_order_acquire);
  return begin <= address && address < end &&
         entry.version.load(std::memory_order_relaxed) == before;
}

Entry* find(std::uintptr_t address) noexcept {
  for (Table* table = &first_table; table != nullptr;
       table = table->next.load(std::memory_order_acquire)) {
    for (Entry& entry : table->entries) {
      if (has(entry, address)) return &entry;
    }
  }
  return nullptr;
}

// By the system call itself: the sanitizers' wrappers are not made for handlers.
bool put_zeros(std::uintptr_t begin, std::uintptr_t end) noexcept {
  return syscall(SYS_mmap, begin, end - begin, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                 -1, 0) >= 0;
}

bool cover(Entry& entry, std::uintptr_t address) noexcept {
  const auto page_size = static_cast<std::uintptr_t>(getpagesize());
  const std::uintptr_t page = address / page_size * page_size;
  const std::uintptr_t end = entry.end.load(std::memory_order_relaxed);
  // Counted first: another thread that reads the zeros and then asks must not be told that all is
  // well.
  entry.faults.fetch_add(1, std::memory_order_seq_cst);
  // A process can have so many mappings and no more. Then the rest becomes one: what it held is
  // lost to this process, but every reader is told of the fault.
  return put_zeros(page, page + page_size) ||
         put_zeros(page, (end + page_size - 1) / page_size * page_size);
}

// A line of /proc/self/maps, read byte by byte: "begin-end flags offset device inode path".
class MapsLine {
 public:
  void take(char byte) noexcept {
    for (std::size_t i = 1; i < sizeof tail_; ++i) tail_[i - 1] = tail_[i];
    tail_[sizeof tail_ - 1] = byte;
    if (byte == ' ') {
      ++field_;
    } else if (field_ == 0 && byte == '-') {
      begin_ = end_;
      end_ = 0;
    } else if (field_ == 0) {
      const auto digit = static_cast<unsigned>(byte <= '9' ? byte - '0' : byte - 'a' + 10);
      end_ = end_ * 16 + digit;
    } else if (field_ == 1 && flags_ < sizeof text_) {
      text_[flags_++] = byte;
    }
  }
  [[nodiscard]] bool has(std::uintptr_t address) const noexcept {
    return begin_ <= address && address < end_;
  }
  // Shared, only read, and of a file that SQLite names so; it may have been deleted since.
  [[nodiscard]] bool is_log_memory() const noexcept {
    return std::memcmp(text_, "r--s", sizeof text_) == 0 &&
           (std::memcmp(tail_, "-shm (deleted)", sizeof tail_) == 0 ||
            std::memcmp(tail_ + sizeof tail_ - 4, "-shm", 4) == 0);
  }

 private:
  std::uintptr_t begin_ = 0;
  std::uintptr_t end_ = 0;
  unsigned field_ = 0;
  unsigned flags_ = 0;
  char text_[4] = {};
  char tail_[14] = {};
};

// SQLite maps the shared memory of a write-ahead log and tells nobody where. In a handler nothing
// but plain calls to the system may be used to look.
bool is_log_memory(std::uintptr_t address) noexcept {
  const int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
  if (file < 0) return false;
  MapsLine line;
  char buffer[512];
  bool is_found = false;
  bool is_over = false;
  while (!is_over) {
    const ssize_t count = read(file, buffer, sizeof buffer);
    if (count < 0 && errno == EINTR) continue;
    is_over = count <= 0;
    for (ssize_t i = 0; i < count && !is_over; ++i) {
      if (buffer[i] != '\n') {
        line.take(buffer[i]);
        continue;
      }
      is_over = line.has(address);
      is_found = is_over && line.is_log_memory();
      line = MapsLine();
    }
  }
  close(file);
  return is_found;
}

// What SQLite then finds there is no log that it could use, which is an error and not the end.
bool cover_log(std::uintptr_t address) noexcept {
  if (!is_log_memory(address)) return false;
  const auto page_size = static_cast<std::uintptr_t>(getpagesize());
  const std::uintptr_t page = address / page_size * page_size;
  return put_zeros(page, page + page_size);
}

long thread_id() noexcept { return syscall(SYS_gettid); }

// Back in the code that has run into the fault, it happens again and ends the process; a signal
// that somebody sent does not, so it is raised again.
void die(int number, const siginfo_t* facts) noexcept {
  struct sigaction standard{};
  standard.sa_handler = SIG_DFL;
  sigaction(number, &standard, nullptr);
  if (facts->si_code <= 0) raise(number);
}

void pass_on(int number, siginfo_t* facts, void* context) noexcept {
  const struct sigaction* handler = previous.load(std::memory_order_acquire);
  if (handler == nullptr || handler->sa_handler == SIG_DFL) return die(number, facts);
  if (handler->sa_handler == SIG_IGN) {
    // As the kernel does: what was sent is ignored, a fault is not.
    if (facts->si_code > 0) die(number, facts);
    return;
  }
  passing_thread.store(thread_id(), std::memory_order_relaxed);
  if ((handler->sa_flags & SA_SIGINFO) != 0) {
    handler->sa_sigaction(number, facts, context);
  } else {
    handler->sa_handler(number);
  }
  passing_thread.store(0, std::memory_order_relaxed);
}

// A handler that was set after ours, as Python's faulthandler does, ends by raising the signal for
// the one before it. To return is right then: the fault itself comes again, and it comes to us.
bool is_from_a_handler(const siginfo_t* facts, const void* context) noexcept {
  if (facts->si_code != SI_TKILL || facts->si_pid != getpid()) return false;
  const auto* before = static_cast<const ucontext_t*>(context);
#if defined(__x86_64__)
  const auto here = static_cast<std::uintptr_t>(before->uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__)
  const auto here = static_cast<std::uintptr_t>(before->uc_mcontext.sp);
#else
  const std::uintptr_t here = 0;
#endif
  // What runs on the stack for signals is a handler.
  return here - reinterpret_cast<std::uintptr_t>(before->uc_stack.ss_sp) < before->uc_stack.ss_size;
}

void on_bus_error(int number, siginfo_t* facts, void* context) {
  const int saved_errno = errno;
  const auto address = reinterpret_cast<std::uintptr_t>(facts->si_addr);
  // BUS_ADRERR: the page is not there. Broken memory is another matter, and sent signals have no
  // address.
  const bool is_missing = facts->si_code == BUS_ADRERR;
  Entry* entry = is_missing ? find(address) : nullptr;
  if (!(entry != nullptr ? cover(*entry, address) : is_missing && cover_log(address))) {
    if (passing_thread.load(std::memory_order_relaxed) == thread_id()) {
      die(number, facts);
    } else if (!is_from_a_handler(facts, context)) {
      pass_on(number, facts, context);
    }
  }
  errno = saved_errno;
}

// Also when somebody has set another handler since.
bool install() noexcept {
  struct sigaction present{};
  if (sigaction(SIGBUS, nullptr, &present) != 0) return false;
  if ((present.sa_flags & SA_SIGINFO) != 0 && present.sa_sigaction == on_bus_error) return true;
  auto* replaced = new (std::nothrow) struct sigaction;
  if (replaced == nullptr) return false;
  struct sigaction ours{};
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_NODEFER | SA_ONSTACK;
  sigemptyset(&ours.sa_mask);
  const bool is_set = sigaction(SIGBUS, &ours, replaced) == 0;
  const bool is_ours =
      (replaced->sa_flags & SA_SIGINFO) != 0 && replaced->sa_sigaction == on_bus_error;
  if (!is_set || is_ours) {  // ours: another thread was faster
    delete replaced;
    return is_set;
  }
  previous.store(replaced, std::memory_order_release);
  return true;
}

Entry* take_entry() noexcept {
  for (Table* table = &first_table;;) {
    for (Entry& entry : table->entries) {
      bool is_taken = false;
      if (entry.is_taken.compare_exchange_strong(is_taken, true)) return &entry;
    }
    Table* next = table->next.load(std::memory_order_acquire);
    if (next == nullptr) {
      auto* fresh = new (std::nothrow) Table;
      if (fresh == nullptr) return nullptr;
      if (table->next.compare_exchange_strong(next, fresh)) {
        next = fresh;
      } else {
        delete fresh;  // another thread was faster
      }
    }
    table = next;
  }
}

}  // namespace

Result<MappingGuard> MappingGuard::create(ByteSpan mapped) noexcept {
  if (mapped.empty()) return MappingGuard(nullptr);
  if (!install()) return Status(Code::unsupported, "the handler of SIGBUS cannot be set");
  Entry* entry = take_entry();
  if (entry == nullptr) return Status(Code::out_of_memory, "no memory for the guard");
  const auto begin = reinterpret_cast<std::uintptr_t>(mapped.data());
  entry->faults.store(0, std::memory_order_relaxed);
  // Whoever sees a new bound also sees that the old version is over.
  entry->begin.store(begin, std::memory_order_release);
  entry->end.store(begin + mapped.size(), std::memory_order_release);
  entry->version.store(last_version.fetch_add(1) + 1, std::memory_order_release);
  return MappingGuard(entry);
}

MappingGuard::~MappingGuard() {
  if (entry_ == nullptr) return;
  entry_->version.store(0, std::memory_order_release);
  entry_->is_taken.store(false, std::memory_order_release);
}

std::uint64_t MappingGuard::faults() const noexcept {
  return entry_ == nullptr ? 0 : entry_->faults.load(std::memory_order_acquire);
}

}  // namespace headrace
