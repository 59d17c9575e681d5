#include "gpu/loader.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "core/images/load_check.hpp"
#include "core/images/shared_list.hpp"
#include "core/images/stored_pixels.hpp"
#include "core/resample/filter_plan.hpp"
#include "gpu/batch.hpp"
#include "gpu/level_table.hpp"
#include "gpu/output_pool.hpp"
#include "gpu/pins.hpp"
#include "gpu/slots.hpp"
#include "gpu/stages.hpp"
#include "gpu/sub_batch.hpp"
#include "gpu/sum_tables.hpp"

namespace headrace::gpu {
namespace {

constexpr std::size_t kPieceAlignment = 256;
// In front of the blob: what the levels become.
constexpr std::size_t kTableBytes = kRgbChannels * 256 * sizeof(float);
static_assert(kTableBytes % kPieceAlignment == 0);
// Pinned memory for the pictures that the CPU decodes, unless one alone is larger.
constexpr std::size_t kStagingBytes = 32 << 20;
// That a thread takes at a time.
constexpr std::size_t kSharePictures = 4;
constexpr std::size_t kPrefetchPictures = 2;

// What is the same for all pictures of a batch.
struct GpuCall {
  ByteSpan base;
  const LoadBatch& batch;
  const LoadOptions& options;
  DevicePointer out;
  std::size_t slot_size;
  LoadReport& report;
  std::size_t fetchable = 0;  // first bytes of `base` that the device can fetch

  [[nodiscard]] DevicePointer out_of(std::size_t position) const noexcept {
    return out + position * slot_size;
  }
};

// Consecutive pictures of a batch.
struct Run {
  std::size_t first, count;
};

class StreamLauncher final : public Launcher {
 public:
  StreamLauncher(Device& device, Device::Stream* stream) noexcept
      : device_(device), stream_(stream) {}
  Status launch(const Launch& launch, void** arguments) noexcept override {
    return device_.launch(launch, arguments, stream_);
  }

 private:
  Device& device_;
  Device::Stream* stream_;
};

// One memory, piece after piece.
struct Pieces {
  DevicePointer next;

  DevicePointer take(std::size_t size) noexcept {
    const DevicePointer taken = next;
    next += round_up(size, kPieceAlignment);
    return taken;
  }
};

// From `first` on; tells the bytes, too.
StageMemory place_stages(DevicePointer first, const BatchSizes& sizes, std::size_t pictures,
                         std::size_t& total_bytes) noexcept {
  const StageBytes bytes = bytes_of(sizes, pictures);
  Pieces pieces{first};
  StageMemory memory{};
  memory.table = pieces.take(kTableBytes);
  memory.blob = pieces.take(sizes.blob_bytes + sizes.fetched_bytes);
  memory.codes = pieces.take(bytes.codes);
  memory.samples = pieces.take(bytes.samples);
  memory.status = pieces.take(bytes.status);
  memory.spans = pieces.take(bytes.spans);
  memory.words = pieces.take(bytes.words);
  memory.pictures = pieces.take(bytes.pictures);
  memory.copies = pieces.take(bytes.copies);
  total_bytes = pieces.next - first;
  return memory;
}

// What a batch probably takes, before it is known: windows have about half of the codes; where
// these are fetched, their tiles are left.
std::size_t guess_blob_bytes(const GpuCall& call, Run run, std::size_t limit) noexcept {
  std::size_t copied = 0, fetched = 0;
  for (std::size_t n = run.first; n < run.first + run.count; ++n) {
    const std::size_t size = std::min<std::size_t>(call.batch.sizes[n], limit);
    std::size_t& sum = call.batch.offsets[n] < call.fetchable ? fetched : copied;
    sum = std::min(sum + size, limit);
  }
  return std::min(run.count * sizeof(Picture) + copied / 8 * 5 + fetched / 8, limit);
}

// By position: their lists come from several places.
void sort_report(LoadReport& report) {
  const auto is_before = [](const auto& a, const auto& b) { return a.position < b.position; };
  std::sort(report.failures.begin(), report.failures.end(), is_before);
  std::sort(report.notes.begin(), report.notes.end(), is_before);
}

// How many pictures fit is for the caller to say, who knows how many batches are under way.
Status no_room_on_device(const Status& status, std::size_t pictures, std::size_t needed,
                         std::size_t free) noexcept {
  if (status.code() != Code::out_of_memory) return status;
  Detail detail("the GPU has too little memory for a batch of ");
  detail << pictures << " pictures: decoding it takes " << needed << " bytes, and " << free
         << " are free";
  return Status(Code::out_of_memory, detail);
}

Status no_memory() noexcept {
  return Status(Code::out_of_memory, "no memory to prepare a batch for the GPU");
}

Status forked() noexcept {
  return Status(Code::unsupported,
                "this process was forked from the one that opened the GPU, and cannot use it: "
                "start it by 'spawn', or open the GPU in it");
}

}  // namespace

// All that a forked child must leave alone.
class GpuLoader::State {
 public:
  // Throws std::bad_alloc.
  State(std::unique_ptr<Device> device, ImageLoader& cpu, std::size_t max_blob_bytes)
      : device_(std::move(device)),
        cpu_(cpu),
        max_blob_bytes_(max_blob_bytes),
        outputs_(*device_),
        pins_(device_),
        slots_(std::make_unique<Slots>(*device_, cpu.threads())) {}
  ~State();
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  [[nodiscard]] bool is_of_this_process() const noexcept { return process_ == getpid(); }
  [[nodiscard]] Device& device() const noexcept { return *device_; }
  [[nodiscard]] OutputPool& outputs() noexcept { return outputs_; }
  [[nodiscard]] Pins& pins() noexcept { return pins_; }
  [[nodiscard]] std::size_t device_bytes() const noexcept {
    return slots_->device_bytes() + tables_.size();
  }
  // Inside a scope of the device.
  [[nodiscard]] std::size_t room_bytes() noexcept {
    return device_->memory().free + slots_->device_bytes() + outputs_.bytes();
  }

  // What follows: inside a scope of the device. Throws std::bad_alloc.
  Status start();
  Status load(const GpuCall& call);

 private:
  Status wait(Slot& slot);
  Status load_run(const GpuCall& call, Slot& slot, Run run);
  Status load_halves(const GpuCall& call, Slot& slot, Run run);
  Status prepare(const GpuCall& call, Slot& slot, Run run, BatchSizes& sizes);
  Status add_pictures(const GpuCall& call, Slot& slot, Run run, std::vector<LoadFailure>& failures);
  Status start_stages(const GpuCall& call, Slot& slot, Run run, const BatchSizes& sizes);
  Status fetch(const GpuCall& call, Slot& slot, Run run, DevicePointer blob);
  Status clear_failed(const GpuCall& call, Slot& slot, Run run);
  Status decode_rest(const GpuCall& call, Slot& slot, Run run);
  Status decode_on_cpu(const GpuCall& call, Slot& slot, std::span<const std::size_t> positions);
  Status copy_decoded(const GpuCall& call, Slot& slot, std::span<const std::size_t> positions);

  const pid_t process_ = getpid();
  const std::shared_ptr<Device> device_;  // shared by loaders that use what it has pinned
  ImageLoader& cpu_;
  const std::size_t max_blob_bytes_;
  OutputPool outputs_;
  Pins pins_;
  std::unique_ptr<Slots> slots_;
  DeviceBuffer tables_;  // SumTables, then that of the filter lanczos
};

GpuLoader::State::~State() {
  const DeviceScope scope(*device_);
  if (!scope.status().is_ok()) {  // the device is gone, and its memory with it
    static_cast<void>(slots_.release());
    pins_.release();
    return;
  }
  slots_.reset();
  pins_.release();
  outputs_.free_unused();
  tables_.free(*device_);
}

Status GpuLoader::State::wait(Slot& slot) {
  slot.is_staging_in_use = false;
  return device_->wait(slot.stream);
}

Status GpuLoader::State::start() {
  const ByteSpan lanczos = std::as_bytes(std::span(lanczos_values(), kLanczosSize));
  const std::size_t size = sizeof(SumTables) + lanczos.size();
  if (Status status = tables_.grow(*device_, size); !status.is_ok()) return status;
  const auto taken = slots_->take();
  if (!taken.is_ok()) return taken.status();
  Slot& slot = *taken.value();
  Status status = slot.blob.grow(*device_, size);
  if (status.is_ok()) {
    std::byte* const tables = slot.blob.bytes().data();
    std::memcpy(tables, &sum_tables(), sizeof(SumTables));
    std::memcpy(tables + sizeof(SumTables), lanczos.data(), lanczos.size());
    status = device_->copy_to_device(tables_.memory(), slot.blob.bytes().first(size), slot.stream);
    const Status done = wait(slot);
    if (status.is_ok()) status = done;
  }
  slots_->give_back(slot);
  return status;
}

Status GpuLoader::State::load(const GpuCall& call) {
  const auto taken = slots_->take();
  if (!taken.is_ok()) return taken.status();
  Slot& slot = *taken.value();
  Status status;
  try {
    status = load_run(call, slot, {0, call.batch.offsets.size()});
  } catch (const std::bad_alloc&) {
    status = no_memory();
  }
  // Whatever has happened: nobody uses the slot's memory, or the output, after this.
  const Status done = wait(slot);
  slots_->give_back(slot);
  return status.is_ok() ? done : status;
}

// Each thread that joins takes pictures until there are no more.
Status GpuLoader::State::add_pictures(const GpuCall& call, Slot& slot, Run run,
                                      std::vector<LoadFailure>& failures) {
  SharedList<LoadFailure> failed(failures);
  std::atomic<std::size_t> next{0};
  const std::size_t workers = std::min(slot.scratch.size(), divide_up(run.count, kSharePictures));
  const Status status = cpu_.pool().run(workers, [&](std::size_t worker, WorkerMemory&) noexcept {
    for (;;) {
      const std::size_t first = next.fetch_add(kSharePictures, std::memory_order_relaxed);
      if (first >= run.count) return;
      for (std::size_t n = first; n < std::min(first + kSharePictures, run.count); ++n) {
        const std::size_t position = run.first + n;
        prefetch_image(call.base, call.batch, position + kPrefetchPictures);
        Status failure;
        const Verdict verdict =
            slot.batch.add(call.base, call.batch, position, n, slot.scratch[worker], failure);
        slot.verdicts[n] = verdict;
        if (verdict == Verdict::failed) failed.add({position, failure});
      }
    }
  });
  return status.is_ok() ? failed.finish() : status;
}

// `too_large` where there is more than one blob takes.
Status GpuLoader::State::prepare(const GpuCall& call, Slot& slot, Run run, BatchSizes& sizes) {
  std::size_t needed = slot.blob.bytes().empty() ? guess_blob_bytes(call, run, max_blob_bytes_) : 0;
  std::vector<LoadFailure> failures;
  slot.verdicts.assign(run.count, Verdict::on_cpu);
  for (;;) {
    Status status = slot.blob.grow(*device_, kTableBytes + needed);
    if (!status.is_ok()) return status;
    failures.clear();
    MutableByteSpan memory = slot.blob.bytes().subspan(kTableBytes);
    memory = memory.first(std::min(memory.size(), max_blob_bytes_));
    slot.batch.start(memory, run.count, call.options, call.fetchable);
    status = add_pictures(call, slot, run, failures);
    if (!status.is_ok()) return status;
    sizes = slot.batch.finish();
    if (sizes.missing_bytes == 0) break;
    if (memory.size() == max_blob_bytes_) return Status(Code::too_large, "more than one blob");
    needed = std::min(sizes.blob_bytes, max_blob_bytes_);
  }
  LoadReport& report = call.report;
  report.failures.insert(report.failures.end(), failures.begin(), failures.end());
  return {};
}

Status GpuLoader::State::start_stages(const GpuCall& call, Slot& slot, Run run,
                                      const BatchSizes& sizes) {
  std::size_t needed = 0;
  place_stages(0, sizes, run.count, needed);
  Status status = slots_->grow_memory(slot, needed);
  if (status.code() == Code::out_of_memory) {
    outputs_.free_unused();
    status = slots_->grow_memory(slot, needed);
  }
  if (!status.is_ok()) {
    return no_room_on_device(status, run.count, needed, device_->memory().free);
  }
  const std::size_t status_bytes = run.count * sizeof(std::uint32_t);
  status = slot.status.grow(*device_, status_bytes);
  if (!status.is_ok()) return status;
  StageMemory memory = place_stages(slot.memory.memory(), sizes, run.count, needed);
  const std::vector<std::byte> table = level_table(call.options);
  const MutableByteSpan pinned = slot.blob.bytes();
  std::copy(table.begin(), table.end(), pinned.begin());
  const DevicePointer first = memory.table;
  if (table.empty()) memory.table = 0;
  memory.sums = tables_.memory();
  memory.lanczos = tables_.memory() + sizeof(SumTables);
  memory.values = call.out_of(run.first);
  status =
      device_->copy_to_device(first, pinned.first(kTableBytes + sizes.blob_bytes), slot.stream);
  if (status.is_ok() && sizes.fetched_bytes != 0) status = fetch(call, slot, run, memory.blob);
  if (status.is_ok()) status = device_->clear(memory.status, status_bytes, slot.stream);
  StreamLauncher launcher(*device_, slot.stream);
  if (status.is_ok()) status = launch_stages(launcher, memory, sizes, run.count, call.options);
  if (!status.is_ok()) return status;
  return device_->copy_to_host(slot.status.bytes().first(status_bytes), memory.status, slot.stream);
}

// By a kernel where batches cannot come fast enough: it keeps the bus busier than one copy for each
// picture does. Copies leave the GPU's cores to whoever trains.
Status GpuLoader::State::fetch(const GpuCall& call, Slot& slot, Run run, DevicePointer blob) {
  if (slots_->is_busy()) {
    StreamLauncher launcher(*device_, slot.stream);
    return launch_fetch(launcher, blob, run.count);
  }
  const auto* pictures =
      reinterpret_cast<const Picture*>(slot.blob.bytes().subspan(kTableBytes).data());
  for (std::size_t n = 0; n < run.count; ++n) {
    const Picture& picture = pictures[n];
    if (picture.fetched_size == 0) continue;
    ByteSpan from = call.base.subspan(call.batch.offsets[run.first + n], picture.fetched_size);
    DevicePointer to = blob + std::size_t{picture.fetched} * kFetchedUnit + picture.fetched_lead;
    while (!from.empty()) {
      const ByteSpan piece = from.first(pins_.copyable(from));
      const Status status = device_->copy_to_device(to, piece, slot.stream);
      if (!status.is_ok()) return status;
      from = from.subspan(piece.size());
      to += piece.size();
    }
  }
  return {};
}

Status GpuLoader::State::clear_failed(const GpuCall& call, Slot& slot, Run run) {
  for (std::size_t n = 0; n < run.count; ++n) {
    if (slot.verdicts[n] != Verdict::failed) continue;
    const DevicePointer out = call.out_of(run.first + n);
    if (Status status = device_->clear(out, call.slot_size, slot.stream); !status.is_ok()) {
      return status;
    }
  }
  return {};
}

Status GpuLoader::State::copy_decoded(const GpuCall& call, Slot& slot,
                                      std::span<const std::size_t> positions) {
  slot.is_staging_in_use = true;
  for (std::size_t n = 0, end = 0; n < positions.size(); n = end) {
    for (end = n + 1; end < positions.size() && positions[end] == positions[end - 1] + 1;) ++end;
    const ByteSpan decoded =
        slot.staging.bytes().subspan(n * call.slot_size, (end - n) * call.slot_size);
    const Status status = device_->copy_to_device(call.out_of(positions[n]), decoded, slot.stream);
    if (!status.is_ok()) return status;
  }
  return {};
}

Status GpuLoader::State::decode_on_cpu(const GpuCall& call, Slot& slot,
                                       std::span<const std::size_t> positions) {
  const std::size_t at_once = std::max<std::size_t>(1, kStagingBytes / call.slot_size);
  LoadReport report;
  for (std::size_t first = 0; first < positions.size(); first += at_once) {
    const auto some = positions.subspan(first, std::min(at_once, positions.size() - first));
    const SubBatch sub(call.batch, some);
    const std::size_t bytes = some.size() * call.slot_size;
    Status status = slot.is_staging_in_use ? wait(slot) : Status();
    if (status.is_ok()) status = slot.staging.grow(*device_, bytes);
    if (!status.is_ok()) return status;
    status =
        cpu_.load(call.base, sub.batch(), call.options, slot.staging.bytes().first(bytes), report);
    if (status.is_ok()) status = copy_decoded(call, slot, some);
    if (!status.is_ok()) return status;
    call.report.counts += report.counts;
    call.report.times += report.times;
    for (LoadFailure& failure : report.failures) {
      failure.position = some[failure.position];
      call.report.failures.push_back(failure);
    }
    for (LoadNote& note : report.notes) {
      note.position = some[note.position];
      call.report.notes.push_back(note);
    }
  }
  return {};
}

Status GpuLoader::State::decode_rest(const GpuCall& call, Slot& slot, Run run) {
  std::vector<std::size_t> positions;
  bool is_any_on_gpu = false;
  for (std::size_t n = 0; n < run.count; ++n) {
    if (slot.verdicts[n] == Verdict::on_cpu) positions.push_back(run.first + n);
    is_any_on_gpu |= slot.verdicts[n] == Verdict::on_gpu;
  }
  Status status = decode_on_cpu(call, slot, positions);
  if (!status.is_ok() || !is_any_on_gpu) return status;
  status = wait(slot);
  if (!status.is_ok()) return status;
  positions.clear();
  const auto* pictures =
      reinterpret_cast<const Picture*>(slot.blob.bytes().subspan(kTableBytes).data());
  const auto* became = reinterpret_cast<const std::uint32_t*>(slot.status.bytes().data());
  for (std::size_t n = 0; n < run.count; ++n) {
    if (slot.verdicts[n] != Verdict::on_gpu || pictures[n].kind == kEmpty) continue;
    if (became[n] != kFine) {
      positions.push_back(run.first + n);
    } else if (pictures[n].kind == kJpeg) {
      ++call.report.counts.gpu;
    }
  }
  return decode_on_cpu(call, slot, positions);
}

Status GpuLoader::State::load_halves(const GpuCall& call, Slot& slot, Run run) {
  if (run.count == 1) return decode_on_cpu(call, slot, std::vector<std::size_t>{run.first});
  const std::size_t half = run.count / 2;
  Status status = load_run(call, slot, {run.first, half});
  if (status.is_ok()) status = load_run(call, slot, {run.first + half, run.count - half});
  return status;
}

Status GpuLoader::State::load_run(const GpuCall& call, Slot& slot, Run run) {
  if (!Batch::is_possible(call.options)) {
    std::vector<std::size_t> positions(run.count);
    for (std::size_t n = 0; n < run.count; ++n) positions[n] = run.first + n;
    return decode_on_cpu(call, slot, positions);
  }
  BatchSizes sizes;
  Status status = prepare(call, slot, run, sizes);
  if (status.code() == Code::too_large) return load_halves(call, slot, run);
  const bool is_any_on_gpu =
      std::find(slot.verdicts.begin(), slot.verdicts.end(), Verdict::on_gpu) != slot.verdicts.end();
  if (status.is_ok() && is_any_on_gpu) status = start_stages(call, slot, run, sizes);
  if (status.is_ok()) status = clear_failed(call, slot, run);
  return status.is_ok() ? decode_rest(call, slot, run) : status;
}

GpuLoader::GpuLoader(std::unique_ptr<State> state) noexcept : state_(std::move(state)) {}

GpuLoader::~GpuLoader() {
  if (!state_->is_of_this_process()) static_cast<void>(state_.release());
}

Result<std::unique_ptr<GpuLoader>> GpuLoader::create(std::unique_ptr<Device> device,
                                                     ImageLoader& cpu,
                                                     std::size_t max_copy_bytes) noexcept {
  static_assert(kMaxCopyBytes == Batch::kMaxBytes);
  try {
    auto state =
        std::make_unique<State>(std::move(device), cpu, std::min(max_copy_bytes, Batch::kMaxBytes));
    {
      const DeviceScope scope(state->device());
      Status status = scope.status();
      if (status.is_ok()) status = state->start();
      if (!status.is_ok()) return status;
    }
    return std::unique_ptr<GpuLoader>(new GpuLoader(std::move(state)));
  } catch (const std::bad_alloc&) {
    return Status(Code::out_of_memory, "no memory for the loader");
  }
}

bool GpuLoader::is_possible(const LoadOptions& options,
                            std::span<const StepKind> /*steps*/) noexcept {
  return Batch::is_possible(options);  // with any steps
}

Status GpuLoader::load(ByteSpan base, const LoadBatch& batch, const LoadOptions& options,
                       DevicePointer out, std::size_t out_bytes, LoadReport& report) noexcept {
  report.failures.clear();
  report.notes.clear();
  report.counts = {};
  report.times = {};
  if (!state_->is_of_this_process()) return forked();
  std::size_t slot_size = 0;
  const MutableByteSpan span(reinterpret_cast<std::byte*>(out), out_bytes);
  Status status = check_load(base, batch, options, span, slot_size);
  if (!status.is_ok() || batch.offsets.empty()) return status;
  const DeviceScope scope(state_->device());
  if (!scope.status().is_ok()) return scope.status();
  try {
    const std::size_t fetchable = state_->pins().fetchable(base);
    status = state_->load({base, batch, options, out, slot_size, report, fetchable});
    sort_report(report);
  } catch (const std::bad_alloc&) {
    return no_memory();
  }
  return status;
}

Status GpuLoader::pin(ByteSpan memory) noexcept {
  if (!state_->is_of_this_process()) return forked();
  const DeviceScope scope(state_->device());
  return scope.status().is_ok() ? state_->pins().add(memory) : scope.status();
}

std::size_t GpuLoader::pinned_bytes() const noexcept { return state_->pins().bytes(); }

Result<DevicePointer> GpuLoader::allocate(std::size_t size) noexcept {
  if (!state_->is_of_this_process()) return forked();
  const DeviceScope scope(state_->device());
  if (!scope.status().is_ok()) return scope.status();
  auto memory = state_->outputs().allocate(size);
  if (memory.is_ok() || memory.status().code() != Code::out_of_memory) return memory;
  Detail detail("the GPU has too little memory: a batch takes ");
  detail << size << " bytes, and " << state_->device().memory().free << " are free";
  return Status(Code::out_of_memory, detail);
}

void GpuLoader::release(DevicePointer memory, std::size_t size) noexcept {
  if (!state_->is_of_this_process()) return;
  const DeviceScope scope(state_->device());
  if (scope.status().is_ok()) state_->outputs().release(memory, size);
}

std::size_t GpuLoader::device_bytes() const noexcept { return state_->device_bytes(); }

std::size_t GpuLoader::room_bytes() const noexcept {
  if (!state_->is_of_this_process()) return 0;
  const DeviceScope scope(state_->device());
  return scope.status().is_ok() ? state_->room_bytes() : 0;
}

}  // namespace headrace::gpu
