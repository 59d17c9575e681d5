#include "gpu/grid.hpp"

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(__x86_64__)
// swapcontext asks the system for the mask of signals each time, which takes ten times as long as
// the rest. What a call must not change is kept on the stack.
extern "C" void headrace_switch_stack(void** from, void* to);
asm(R"(
.text
.type headrace_switch_stack, @function
headrace_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size headrace_switch_stack, . - headrace_switch_stack
)");
#else
#include <ucontext.h>
#endif

namespace headrace::gpu::grid {
namespace {

constexpr std::size_t kStackBytes = 64 << 10;
constexpr uint32_t kLanes = 32;

enum class State : uint8_t { ready, waits_for_block, waits_for_warp, ended };

#if defined(__x86_64__)

// Where a thread goes on: the top of its stack.
struct Context {
  void* top = nullptr;
};

void switch_context(Context& from, Context& to) { headrace_switch_stack(&from.top, to.top); }

// As if `function` had called switch_context before its first line: its address, above it a place
// for the return address that it does not use, below it six registers.
void make_context(Context& context, std::byte* stack, std::size_t size, void (*function)()) {
  constexpr std::size_t kRegisters = 6;
  auto** top = reinterpret_cast<void**>(stack + size) - 2;
  top[0] = reinterpret_cast<void*>(function);
  top[1] = nullptr;
  context.top = top - kRegisters;
}

#else

struct Context {
  ucontext_t place;
};

void switch_context(Context& from, Context& to) { swapcontext(&from.place, &to.place); }

void make_context(Context& context, std::byte* stack, std::size_t size, void (*function)()) {
  getcontext(&context.place);
  context.place.uc_stack.ss_sp = stack;
  context.place.uc_stack.ss_size = size;
  context.place.uc_link = nullptr;
  makecontext(&context.place, function, 0);
}

#endif

struct Fiber {
  Context context;
  std::byte* stack = nullptr;
  State state = State::ready;
  uint32_t given = 0;
};

struct Block {
  Place place{};
  std::vector<Fiber> fibers;
  std::vector<std::byte> shared;
  Context scheduler;
  const std::function<void()>* kernel = nullptr;
#if defined(__SANITIZE_ADDRESS__)
  const void* scheduler_stack = nullptr;
  std::size_t scheduler_stack_bytes = 0;
  void* scheduler_fake = nullptr;
#endif
};

thread_local Block* block_in_use = nullptr;
// From run to run: the system need not give them anew.
thread_local std::vector<std::unique_ptr<std::byte[]>> stacks;

void switch_to_scheduler(State state) noexcept {
  Block& block = *block_in_use;
  Fiber& fiber = block.fibers[block.place.thread];
  fiber.state = state;
#if defined(__SANITIZE_ADDRESS__)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(state == State::ended ? nullptr : &fake, block.scheduler_stack,
                                 block.scheduler_stack_bytes);
#endif
  switch_context(fiber.context, block.scheduler);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(fake, &block.scheduler_stack, &block.scheduler_stack_bytes);
#endif
}

void start() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(nullptr, &block_in_use->scheduler_stack,
                                  &block_in_use->scheduler_stack_bytes);
#endif
  (*block_in_use->kernel)();
  switch_to_scheduler(State::ended);
}

void resume(Block& block, uint32_t thread) {
  block.place.thread = thread;
  Fiber& fiber = block.fibers[thread];
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&block.scheduler_fake, fiber.stack, kStackBytes);
#endif
  switch_context(block.scheduler, fiber.context);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(block.scheduler_fake, nullptr, nullptr);
#endif
}

// Lets those go on that wait with all others that have not ended. False when nobody can.
bool release(Block& block, uint32_t first, uint32_t count, State waiting) {
  bool is_any = false;
  for (uint32_t i = first; i < first + count; ++i) {
    const State state = block.fibers[i].state;
    if (state == State::ready || (state != State::ended && state != waiting)) return false;
    is_any |= state == waiting;
  }
  for (uint32_t i = first; i < first + count; ++i) {
    if (block.fibers[i].state == waiting) block.fibers[i].state = State::ready;
  }
  return is_any;
}

void run_block(Block& block) {
  const uint32_t threads = block.place.threads;
  for (Fiber& fiber : block.fibers) {
    fiber.state = State::ready;
    make_context(fiber.context, fiber.stack, kStackBytes, start);
  }
  bool is_forwards = true;
  for (bool is_any = true; is_any; is_forwards = !is_forwards) {
    is_any = false;
    for (uint32_t k = 0; k < threads; ++k) {
      const uint32_t i = is_forwards ? k : threads - 1 - k;
      if (block.fibers[i].state != State::ready) continue;
      resume(block, i);
      is_any = true;
    }
    for (uint32_t warp = 0; warp < threads; warp += kLanes) {
      is_any |= release(block, warp, kLanes, State::waits_for_warp);
    }
    is_any |= release(block, 0, threads, State::waits_for_block);
  }
  for (const Fiber& fiber : block.fibers) {
    if (fiber.state == State::ended) continue;
    std::fputs("threads of a block wait for each other for ever\n", stderr);
    std::abort();
  }
}

}  // namespace

const Place& here() noexcept { return block_in_use->place; }
void* shared_memory() noexcept { return block_in_use->shared.data(); }
void sync_block() noexcept { switch_to_scheduler(State::waits_for_block); }

uint32_t exchange(uint32_t value, uint32_t lane) noexcept {
  Block& block = *block_in_use;
  const uint32_t thread = block.place.thread;
  block.fibers[thread].given = value;
  switch_to_scheduler(State::waits_for_warp);
  const uint32_t taken = block.fibers[thread / kLanes * kLanes + lane].given;
  switch_to_scheduler(State::waits_for_warp);  // nobody gives the next value before all have taken
  return taken;
}

void run(uint32_t blocks, uint32_t layers, uint32_t threads, std::size_t shared_bytes,
         const std::function<void()>& kernel) {
  Block block;
  block.fibers.resize(threads);
  while (stacks.size() < threads)
    stacks.push_back(std::make_unique_for_overwrite<std::byte[]>(kStackBytes));
  for (uint32_t i = 0; i < threads; ++i) block.fibers[i].stack = stacks[i].get();
  block.kernel = &kernel;
  Block* const before = block_in_use;
  block_in_use = &block;
  for (uint32_t layer = 0; layer < layers; ++layer) {
    for (uint32_t number = 0; number < blocks; ++number) {
      block.place = {0, threads, number, layer, layers};
      block.shared.assign(shared_bytes, std::byte{0xA5});
      run_block(block);
    }
  }
  block_in_use = before;
}

}  // namespace headrace::gpu::grid
