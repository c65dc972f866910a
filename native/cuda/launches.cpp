// native/cuda/launches.cpp
#include "cuda/launches.h"

#include <string.h>

#include "cuda/launch_apis.h"

namespace pilotlight::cupti {
namespace {

constexpr uint64_t kMaxSpentTicks = 20000;
constexpr uint64_t kMaxCallTicks = 1000000;

uint32_t range_of(const RingWriter* ring) noexcept {
  return ring != nullptr ? ring->innermost_range() : 0;
}

// All these calls return a number, 0 for success.
bool has_failed(const CallbackData& data) noexcept {
  return data.result != nullptr && *static_cast<const int*>(data.result) != 0;
}

}  // namespace

struct Launches::PerThread {
  RingWriter* ring;  // of the call that is under way
  uint64_t start_ticks;
  uint64_t spent_ticks;  // in our enter, if this launch is timed
  uint32_t turn;
  uint32_t depth;
  uint32_t stack;
  uint32_t count;
  uint32_t captured;  // whether this call made a node of a graph, and no work
  uint32_t heard;     // whether it began while something was to be recorded
};

static thread_local char per_thread_bytes[48] __attribute__((aligned(8)));

void Launches::open(const ProviderApi* api, ClockKind clock) noexcept {
  api_ = api;
  clock_ = clock;
  for (const LaunchApis& some : kLaunchApis) {
    for (uint32_t id = some.first; id <= some.last; id++) {
      kinds_[some.domain][id] = static_cast<uint8_t>(some.kind);
    }
  }
  for (auto& domain : names_) {
    for (auto& name : domain) name.store(0, std::memory_order_relaxed);
  }
}

Result Launches::enable(Library* library, bool on) noexcept {
  turn_.fetch_add(1, std::memory_order_relaxed);
  Result first = kSuccess;
  for (const LaunchApis& some : kLaunchApis) {
    for (uint32_t id = some.first; id <= some.last; id++) {
      Result result = library->enable_callback(on, some.domain, id);
      // Versions differ in which calls there are.
      if (result != kSuccess && result != kInvalidParameter && first == kSuccess) first = result;
    }
  }
  return first;
}

Result Launches::enable_records(Library* library, bool on) noexcept {
  for (const LaunchApis& some : kLaunchApis) {
    if (some.kind == ActivityKind::kSynchronization) continue;
    for (uint32_t id = some.first; id <= some.last; id++) {
      if (library->enable_api(on, some.domain, id) == kUnknown) return kUnknown;
    }
  }
  return kSuccess;
}

uint32_t Launches::name_of(uint32_t domain, uint32_t id, const char* function) noexcept {
  uint32_t name = names_[domain][id].load(std::memory_order_relaxed);
  if (__builtin_expect(name == 0 && function != nullptr, 0)) {
    name = api_->string(function, strnlen(function, kMaxStringBytes));
    names_[domain][id].store(name, std::memory_order_relaxed);
  }
  return name;
}

void Launches::callback(uint32_t domain, uint32_t id, const CallbackData& data) noexcept {
  if (domain > kRuntime || id >= kMaxId) return;
  bool is_collecting = api_->collecting->load(std::memory_order_relaxed);
  static_assert(sizeof(PerThread) <= sizeof(per_thread_bytes));
  auto* thread = reinterpret_cast<PerThread*>(per_thread_bytes);
  uint32_t turn = turn_.load(std::memory_order_relaxed);
  if (thread->turn != turn) {
    thread->turn = turn;
    thread->depth = 0;
  }
  // Calls are counted also while nothing is to be recorded: a long one may begin before a pause and
  // end in it, and the next must not be taken for one inside it.
  if (data.site == kEnter) {
    if (thread->depth++ == 0) {
      thread->heard = is_collecting ? 1 : 0;
      if (is_collecting) enter(thread, domain, id, data);
    } else if (thread->heard != 0) {
      // The driver's call inside the runtime's. Where it has a number of its own, the work may
      // carry that one.
      table_->put(data.correlation, {thread->stack, range_of(thread->ring)});
    }
  } else if (thread->depth != 0 && --thread->depth == 0) {
    if (thread->heard != 0 && is_collecting) leave(thread, domain, id, data);
  }
}

void Launches::note_captured() noexcept {
  reinterpret_cast<PerThread*>(per_thread_bytes)->captured = 1;
}

void Launches::enter(PerThread* thread, uint32_t, uint32_t, const CallbackData& data) noexcept {
  uint64_t start = ticks_of(clock_);
  thread->start_ticks = start;
  thread->captured = 0;
  thread->stack = api_->stack();
  thread->ring = api_->ring();
  table_->put(data.correlation, {thread->stack, range_of(thread->ring)});
  thread->spent_ticks = 0;
  if (thread->count++ % kTimedOneIn == 0) thread->spent_ticks = ticks_of(clock_) - start;
}

void Launches::leave(PerThread* thread, uint32_t domain, uint32_t id,
                     const CallbackData& data) noexcept {
  uint64_t now = ticks_of(clock_);
  uint8_t kind = kinds_[domain][id];
  // What is captured or refused starts nothing, and does not count as work.
  if (thread->captured != 0 || has_failed(data)) kind = 0;
  if (kind == static_cast<uint8_t>(ActivityKind::kGraph))
    graphs_.fetch_add(1, std::memory_order_relaxed);
  RingWriter* ring = thread->ring;
  if (ring != nullptr) {
    Launch launch = {};
    launch.duration_ticks = now - thread->start_ticks;
    launch.correlation = data.correlation;
    launch.stack = thread->stack;
    launch.kind = kind;
    ring->write_at(RecordType::kLaunch, name_of(domain, id, data.function), launch,
                   thread->start_ticks);
  }
  if (thread->spent_ticks == 0) return;
  uint64_t spent = thread->spent_ticks + (ticks_of(clock_) - now);
  // Longer ones were preempted or interned a new stack, which is no cost of each launch.
  if (spent > kMaxSpentTicks) spent = kMaxSpentTicks;
  launches_.fetch_add(kTimedOneIn, std::memory_order_relaxed);
  cost_ticks_.fetch_add(spent * kTimedOneIn, std::memory_order_relaxed);
  uint64_t call = now - thread->start_ticks - thread->spent_ticks;
  bool is_kernel = kind == static_cast<uint8_t>(ActivityKind::kKernel);
  // Much longer ones waited for room in the device's queue, or other programs had the core.
  if (!is_kernel || call > kMaxCallTicks) return;
  calls_.fetch_add(1, std::memory_order_relaxed);
  call_ticks_.fetch_add(call, std::memory_order_relaxed);
}

}  // namespace pilotlight::cupti
