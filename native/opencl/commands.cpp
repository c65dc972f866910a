// native/opencl/commands.cpp
#include "opencl/commands.h"

#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "opencl/queues.h"
#include "opencl/target.h"
#include "provider/brief_lock.h"
#include "provider/host_clock.h"

namespace pilotlight::opencl {
namespace {

constexpr uint32_t kMaxPending = 1 << 13;

std::atomic<const ProviderApi*> probe{nullptr};
HostClock host_clock;
std::atomic<uint64_t> correlations{0};
uint32_t first_run = 0;  // of the process that began to use OpenCL, not of its forked children

struct Loss {
  const char* name;
  std::atomic<uint64_t> count{0}, told{0};
};
constexpr char kUnfinished[] = "opencl/unfinished";
Loss lost{"opencl/lost"}, untimed{"opencl/untimed"};

struct Pending {
  uint32_t next_free;
  uint32_t name, kind, stack, range, run, track;
  DeviceClock* clock;
  int64_t bytes, before_ns, after_ns;
  uint64_t correlation;
};
std::atomic_flag pending_lock = ATOMIC_FLAG_INIT;
Pending pending[kMaxPending];
uint32_t pending_fresh = 0, pending_free = 0;

Pending* take_pending() noexcept {
  BriefLock guard(pending_lock);
  if (!guard) return nullptr;
  if (pending_free != 0) {
    Pending* one = &pending[pending_free - 1];
    pending_free = one->next_free;
    return one;
  }
  return pending_fresh < kMaxPending ? &pending[pending_fresh++] : nullptr;
}

void give_back(Pending* one) noexcept {
  BriefLock guard(pending_lock);
  // Without it the place is never taken again: one less, but no thread of the driver's waits.
  if (!guard) {
    lost.count.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  one->next_free = pending_free;
  pending_free = static_cast<uint32_t>(one - pending) + 1;
}

void tell(const ProviderApi& api, Loss& loss, uint64_t now) noexcept {
  loss.told.store(now, std::memory_order_relaxed);
  api.counter(loss.name, strlen(loss.name), static_cast<double>(now));
}

void add_to(Loss& loss, const ProviderApi& api) noexcept {
  uint64_t now = loss.count.fetch_add(1, std::memory_order_relaxed) + 1;
  // At 1, 2, 4, ... and every thousand; the last of them when the process ends.
  if ((now & (now - 1)) == 0 || now % 1000 == 0) tell(api, loss, now);
}

// Commands that the driver still has.
void tell_unfinished(const ProviderApi& api) noexcept {
  BriefLock guard(pending_lock);
  if (!guard) return;
  uint32_t left = pending_fresh;
  for (uint32_t free = pending_free; free != 0; free = pending[free - 1].next_free) left--;
  if (left != 0) api.counter(kUnfinished, strlen(kUnfinished), left);
}

void tell_end() noexcept {
  const ProviderApi* api = api_now();
  if (api == nullptr) return;
  if (RingWriter* ring = api->ring(); ring != nullptr) ring->use_reserve();
  // What was last said may have found the ring full; but a forked child has its parent's counts.
  bool is_own = api->run->load(std::memory_order_relaxed) == first_run;
  if (is_own) tell_unfinished(*api);
  for (Loss* loss : {&lost, &untimed}) {
    uint64_t now = loss->count.load(std::memory_order_relaxed);
    uint64_t before = is_own ? 0 : loss->told.load(std::memory_order_relaxed);
    if (now != before) tell(*api, *loss, now);
  }
}

int64_t moment(Event* event, uint32_t which) noexcept {
  using GetInfo = int(Event*, uint32_t, size_t, void*, size_t*);
  uint64_t time_ns = 0;
  int error = next<GetInfo>(kGetProfilingInfo)(event, which, sizeof(time_ns), &time_ns, nullptr);
  return error == kSuccess ? static_cast<int64_t>(time_ns) : 0;
}

// On a thread of the driver, when the device has done the command.
void on_complete(Event* event, int status, void* data) {
  auto* done = static_cast<Pending*>(data);
  int64_t queued = moment(event, kQueued), submitted = moment(event, kSubmitted);
  int64_t started = moment(event, kStarted), ended = moment(event, kEnded);
  next<int(Event*)>(kReleaseEvent)(event);
  const ProviderApi* api = api_now();
  if (api != nullptr && done->run == api->run->load(std::memory_order_relaxed)) {
    RingWriter* ring = api->ring();
    bool is_timed = status == kComplete && queued > 0 && started >= queued && ended >= started;
    if (!is_timed) {
      add_to(untimed, *api);
    } else if (ring != nullptr) {
      int64_t offset = done->clock->offset_ns(done->before_ns, done->after_ns, queued);
      uint64_t start = host_clock.ticks_at(started + offset);
      Activity record = {};
      record.header.flags = kActivityDelays;
      record.duration_ticks = host_clock.ticks_at(ended + offset) - start;
      record.track = done->track;
      record.kind = done->kind;
      record.correlation = done->correlation;
      record.bytes = done->bytes;
      record.stack = done->stack;
      record.range = done->range;
      auto clipped = [](int64_t delay_ns) {
        return static_cast<uint64_t>(delay_ns < 0            ? 0
                                     : delay_ns > UINT32_MAX ? UINT32_MAX
                                                             : delay_ns);
      };
      record.detail = clipped(submitted - queued) << 32 | clipped(started - submitted);
      ring->write_at(RecordType::kActivity, done->name, record, start);
    }
  }
  give_back(done);
}

uint32_t kernel_name(const ProviderApi& api, Kernel* kernel) noexcept {
  using GetInfo = int(Kernel*, uint32_t, size_t, void*, size_t*);
  char text[kMaxStringBytes];
  size_t bytes = 0;
  int error =
      next<GetInfo>(kGetKernelInfo)(kernel, kKernelFunctionName, sizeof(text), text, &bytes);
  if (error != kSuccess || bytes == 0) return api.string("kernel", 6);
  return api.string(text, bytes - 1);
}

}  // namespace

const ProviderApi* api_now() noexcept {
  const ProviderApi* api = probe.load(std::memory_order_acquire);
  return api != nullptr && api->collecting->load(std::memory_order_relaxed) ? api : nullptr;
}

const ProviderApi* attach_once() noexcept {
  const ProviderApi* api = probe.load(std::memory_order_acquire);
  if (api != nullptr) return api;
  api = attach();
  if (api == nullptr) return nullptr;
  RingWriter* ring = api->ring();
  if (ring != nullptr) host_clock.open(ring->clock());
  if (probe.exchange(api, std::memory_order_acq_rel) != nullptr) return api;
  first_run = api->run->load(std::memory_order_relaxed);
  // While there is room for names.
  for (const char* name : {lost.name, untimed.name, kUnfinished}) api->string(name, strlen(name));
  atexit(tell_end);
  return api;
}

void watch(const ProviderApi& api, const Command& command, Queue* queue, Event* event,
           Kernel* kernel, int64_t bytes, int64_t before_ns, uint64_t start_ticks,
           bool is_theirs) noexcept {
  int64_t after_ns = clock_ns(CLOCK_MONOTONIC);
  uint64_t correlation = correlations.fetch_add(1, std::memory_order_relaxed) + 1;
  uint32_t call_name = api.string(command.name, strlen(command.name));
  uint32_t stack = api.stack();
  if (RingWriter* ring = api.ring(); ring != nullptr) {
    Launch launch = {};
    launch.duration_ticks = ticks_of(ring->clock()) - start_ticks;
    launch.correlation = correlation;
    launch.stack = stack;
    launch.kind = static_cast<uint32_t>(command.kind);
    ring->write_at(RecordType::kLaunch, call_name, launch, start_ticks);
  }
  QueueTrack track = track_of(api, queue, false);
  Pending* one = track.clock != nullptr ? take_pending() : nullptr;
  if (one == nullptr) {
    add_to(lost, api);
    if (!is_theirs) next<int(Event*)>(kReleaseEvent)(event);
    return;
  }
  *one = {};
  one->name = kernel != nullptr ? kernel_name(api, kernel) : call_name;
  one->kind = static_cast<uint32_t>(command.kind);
  one->stack = stack;
  one->range = api.range();
  one->run = track.run;
  one->track = track.track;
  one->clock = track.clock;
  one->bytes = bytes;
  one->before_ns = before_ns;
  one->after_ns = after_ns;
  one->correlation = correlation;
  if (is_theirs) next<int(Event*)>(kRetainEvent)(event);
  using SetCallback = int(Event*, int, EventCallback*, void*);
  if (next<SetCallback>(kSetEventCallback)(event, kComplete, on_complete, one) != kSuccess) {
    next<int(Event*)>(kReleaseEvent)(event);
    give_back(one);
    add_to(lost, api);
  }
}

}  // namespace pilotlight::opencl
