// native/opencl/layer.cpp: libpilotlight_opencl.so, a layer between a program and the OpenCL loader
// (OPENCL_LAYERS). Each command that is put into a queue becomes a launch, with its Python stack,
// and, when the device has done it, an activity with the device's own times on the queue's track.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>
#include <tuple>

#include "opencl/opencl_abi.h"
#include "provider/brief_lock.h"
#include "provider/host_clock.h"
#include "provider/provider_api.h"

namespace pilotlight::opencl {
namespace {

constexpr uint32_t kMaxPending = 1 << 13;
constexpr uint32_t kMaxQueues = 1 << 10;
constexpr uint32_t kMaxDevices = 64;
constexpr uint32_t kMaxProperties = 32;

const Function* target = nullptr;  // the loader's functions
Function table[kMostCalls];        // ours
std::atomic<const ProviderApi*> probe{nullptr};
HostClock host_clock;
std::atomic<uint64_t> correlations{0}, lost{0}, untimed{0};

template <typename F>
F* next(Call call) noexcept {
  return reinterpret_cast<F*>(target[call]);
}

// The device's clock against ours: every command was queued between two moments that we know, so
// each narrows the difference down.
struct DeviceClock {
  Device* device;
  uint16_t number;
  std::atomic_flag lock;
  bool is_known;
  int64_t least_ns, most_ns;

  int64_t offset_ns(int64_t before_ns, int64_t after_ns, int64_t queued_ns) noexcept {
    int64_t least = before_ns - queued_ns, most = after_ns - queued_ns;
    BriefLock guard(lock);
    if (!guard) return least + (most - least) / 2;  // what this command alone says
    if (!is_known || least > most_ns || most < least_ns) {
      least_ns = least;  // the first, or the clocks have drifted apart
      most_ns = most;
      is_known = true;
    }
    if (least > least_ns) least_ns = least;
    if (most < most_ns) most_ns = most;
    return least_ns + (most_ns - least_ns) / 2;
  }
};

struct QueueTrack {
  Queue* queue;
  DeviceClock* clock;
  uint32_t track, run;
};

std::atomic_flag tracks_lock = ATOMIC_FLAG_INIT;
DeviceClock devices[kMaxDevices];
uint32_t device_count = 0;
QueueTrack tracks[kMaxQueues];

// A command that the device has not finished.
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
    lost.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  one->next_free = pending_free;
  pending_free = static_cast<uint32_t>(one - pending) + 1;
}

const ProviderApi* api_now() noexcept {
  const ProviderApi* api = probe.load(std::memory_order_acquire);
  return api != nullptr && api->collecting->load(std::memory_order_relaxed) ? api : nullptr;
}

void attach_once() noexcept {
  if (probe.load(std::memory_order_acquire) != nullptr) return;
  const ProviderApi* api = attach();
  if (api == nullptr) return;
  RingWriter* ring = api->ring();
  if (ring != nullptr) host_clock.open(ring->clock());
  probe.store(api, std::memory_order_release);
}

void tell(const ProviderApi& api, const char* name, std::atomic<uint64_t>& count) noexcept {
  uint64_t now = count.fetch_add(1, std::memory_order_relaxed) + 1;
  // At 1, 2, 4, ... and every thousand.
  if ((now & (now - 1)) == 0 || now % 1000 == 0) {
    api.counter(name, strlen(name), static_cast<double>(now));
  }
}

DeviceClock* clock_of(Device* device) noexcept {
  for (uint32_t i = 0; i < device_count; i++) {
    if (devices[i].device == device) return &devices[i];
  }
  if (device_count == kMaxDevices) return &devices[0];
  DeviceClock* made = &devices[device_count];
  made->device = device;
  made->number = static_cast<uint16_t>(device_count++);
  return made;
}

QueueTrack* find_track(Queue* queue, uint32_t run, QueueTrack** free) noexcept {
  auto place = (reinterpret_cast<uintptr_t>(queue) >> 4) * 0x9E3779B97F4A7C15u >> 54;
  *free = nullptr;
  for (uint32_t tries = 0; tries < 16; tries++) {
    QueueTrack* one = &tracks[(place + tries) % kMaxQueues];
    if (one->queue == queue && one->run == run) return one;
    bool is_better = one->queue == queue || (one->queue == nullptr && *free == nullptr);
    if (is_better) *free = one;
  }
  if (*free == nullptr) *free = &tracks[place % kMaxQueues];
  return nullptr;
}

// Where the activities of a queue go; made anew for a queue at a place where another was. Without a
// clock: it could not be had. The driver is asked without the lock: it may take its time.
QueueTrack track_of(const ProviderApi& api, Queue* queue, bool is_new) noexcept {
  uint32_t run = api.run->load(std::memory_order_relaxed);
  QueueTrack* free = nullptr;
  if (!is_new) {
    BriefLock guard(tracks_lock);
    if (!guard) return {};
    QueueTrack* known = find_track(queue, run, &free);
    if (known != nullptr) return *known;
  }
  Device* device = nullptr;
  char name[192] = "OpenCL device", title[256];
  using GetQueueInfo = int(Queue*, uint32_t, size_t, void*, size_t*);
  using GetDeviceInfo = int(Device*, uint32_t, size_t, void*, size_t*);
  next<GetQueueInfo>(kGetQueueInfo)(queue, kQueueDevice, sizeof(device), &device, nullptr);
  if (device != nullptr) {
    next<GetDeviceInfo>(kGetDeviceInfo)(device, kDeviceName, sizeof(name) - 1, name, nullptr);
  }
  int bytes = snprintf(title, sizeof(title), "%s queue %p", name, static_cast<void*>(queue));
  uint32_t id = api.string(title, static_cast<size_t>(bytes));
  BriefLock guard(tracks_lock);
  if (!guard) return {};
  DeviceClock* clock = clock_of(device);
  QueueTrack* known = find_track(queue, run, &free);
  QueueTrack* place = known != nullptr ? known : free;
  auto stream = reinterpret_cast<uint64_t>(queue);
  *place = {queue, clock, api.track(id, TrackKind::kStream, clock->number, stream), run};
  return *place;
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
      tell(*api, "opencl/untimed", untimed);
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

struct Command {
  Call call;
  const char* name;  // of the function
  ActivityKind kind;
  int bytes_at;  // which argument after the queue says how much; -1: none
};

uint32_t kernel_name(const ProviderApi& api, Kernel* kernel) noexcept {
  using GetInfo = int(Kernel*, uint32_t, size_t, void*, size_t*);
  char text[kMaxStringBytes];
  size_t bytes = 0;
  int error =
      next<GetInfo>(kGetKernelInfo)(kernel, kKernelFunctionName, sizeof(text), text, &bytes);
  if (error != kSuccess || bytes == 0) return api.string("kernel", 6);
  return api.string(text, bytes - 1);
}

// What is to be remembered of a command that was just put into a queue.
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
    tell(api, "opencl/lost", lost);
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
    tell(api, "opencl/lost", lost);
  }
}

template <int at, typename... Args>
int64_t bytes_in(const Args&... args) noexcept {
  if constexpr (at < 0) {
    return 0;
  } else {
    return static_cast<int64_t>(std::get<static_cast<size_t>(at)>(std::tie(args...)));
  }
}

template <typename First, typename... Rest>
Kernel* kernel_in(First first, Rest...) noexcept {
  if constexpr (std::is_same_v<First, Kernel*>) {
    return first;
  } else {
    return nullptr;
  }
}

// A function that puts a command into a queue; they differ in what is between queue and waits.
template <const Command& command, typename... Args>
struct Enqueue {
  static int call(Queue* queue, Args... args, uint32_t waits, Event* const* wait_list,
                  Event** event) {
    using F = int(Queue*, Args..., uint32_t, Event* const*, Event**);
    auto* go_on = next<F>(command.call);
    const ProviderApi* api = api_now();
    if (api == nullptr) return go_on(queue, args..., waits, wait_list, event);
    RingWriter* ring = api->ring();
    uint64_t start_ticks = ring != nullptr ? ticks_of(ring->clock()) : 0;
    int64_t before_ns = clock_ns(CLOCK_MONOTONIC);
    Event* ours = nullptr;
    Event** given = event != nullptr ? event : &ours;
    int error = go_on(queue, args..., waits, wait_list, given);
    if (error == kSuccess && *given != nullptr) {
      watch(*api, command, queue, *given, kernel_in(args...), bytes_in<command.bytes_at>(args...),
            before_ns, start_ticks, event != nullptr);
    }
    return error;
  }
};

// A function that waits for the device: a range of the calling thread.
template <typename F>
int waiting(const char* name, F&& wait) noexcept {
  const ProviderApi* api = api_now();
  RingWriter* ring = api != nullptr ? api->ring() : nullptr;
  if (ring == nullptr) return wait();
  uint32_t id = api->string(name, strlen(name));
  RecordHeader header = {};
  header.flags = static_cast<uint8_t>(SpanKind::kSync);
  bool is_open = ring->write(RecordType::kBegin, id, header);
  int answer = wait();
  if (is_open) ring->write(RecordType::kEnd, id, header);
  return answer;
}

int finish(Queue* queue) {
  return waiting("clFinish", [=] { return next<int(Queue*)>(kFinish)(queue); });
}

int wait_for_events(uint32_t count, Event* const* events) {
  using F = int(uint32_t, Event* const*);
  return waiting("clWaitForEvents", [=] { return next<F>(kWaitForEvents)(count, events); });
}

Queue* opened(Queue* queue) noexcept {
  attach_once();
  const ProviderApi* api = probe.load(std::memory_order_acquire);
  if (api != nullptr && queue != nullptr) track_of(*api, queue, true);
  return queue;
}

// Queues tell times only if they were made to; one that does not want to is made as it was asked.
Queue* create_queue(Context* context, Device* device, uint64_t properties, int* error) {
  auto* make = next<Queue*(Context*, Device*, uint64_t, int*)>(kCreateQueue);
  Queue* queue = make(context, device, properties | kProfilingEnable, error);
  return opened(queue != nullptr ? queue : make(context, device, properties, error));
}

Queue* create_queue_with_properties(Context* context, Device* device, const uint64_t* properties,
                                    int* error) {
  auto* make = next<Queue*(Context*, Device*, const uint64_t*, int*)>(kCreateQueueWithProperties);
  uint64_t wanted[kMaxProperties + 3] = {};
  size_t count = 0;
  bool is_set = false, fits = true;
  for (const uint64_t* pair = properties; pair != nullptr && pair[0] != 0; pair += 2) {
    fits = fits && count + 2 <= kMaxProperties;
    if (!fits) break;
    wanted[count] = pair[0];
    wanted[count + 1] = pair[1] | (pair[0] == kQueueProperties ? kProfilingEnable : 0);
    is_set = is_set || pair[0] == kQueueProperties;
    count += 2;
  }
  if (!is_set) {
    wanted[count] = kQueueProperties;
    wanted[count + 1] = kProfilingEnable;
  }
  Queue* queue = fits ? make(context, device, wanted, error) : nullptr;
  return opened(queue != nullptr ? queue : make(context, device, properties, error));
}

using Bool = uint32_t;
constexpr Command kNdRange = {kNdRangeKernel, "clEnqueueNDRangeKernel", ActivityKind::kKernel, -1};
constexpr Command kTasks = {kTask, "clEnqueueTask", ActivityKind::kKernel, -1};
constexpr Command kRead = {kReadBuffer, "clEnqueueReadBuffer", ActivityKind::kMemcpy, 3};
constexpr Command kWrite = {kWriteBuffer, "clEnqueueWriteBuffer", ActivityKind::kMemcpy, 3};
constexpr Command kCopy = {kCopyBuffer, "clEnqueueCopyBuffer", ActivityKind::kMemcpy, 4};
constexpr Command kReadRect = {kReadBufferRect, "clEnqueueReadBufferRect", ActivityKind::kMemcpy,
                               -1};
constexpr Command kWriteRect = {kWriteBufferRect, "clEnqueueWriteBufferRect", ActivityKind::kMemcpy,
                                -1};
constexpr Command kCopyRect = {kCopyBufferRect, "clEnqueueCopyBufferRect", ActivityKind::kMemcpy,
                               -1};
constexpr Command kImageRead = {kReadImage, "clEnqueueReadImage", ActivityKind::kMemcpy, -1};
constexpr Command kImageWrite = {kWriteImage, "clEnqueueWriteImage", ActivityKind::kMemcpy, -1};
constexpr Command kImageCopy = {kCopyImage, "clEnqueueCopyImage", ActivityKind::kMemcpy, -1};
constexpr Command kFill = {kFillBuffer, "clEnqueueFillBuffer", ActivityKind::kMemset, 4};
constexpr Command kSvmCopy = {kSvmMemcpy, "clEnqueueSVMMemcpy", ActivityKind::kMemcpy, 3};
constexpr Command kSvmSet = {kSvmFill, "clEnqueueSVMMemFill", ActivityKind::kMemset, 3};
constexpr Command kMigration = {kMigrate, "clEnqueueMigrateMemObjects", ActivityKind::kMemcpy, -1};
constexpr Command kUnmapping = {kUnmap, "clEnqueueUnmapMemObject", ActivityKind::kMemcpy, -1};

using Three = const size_t*;
using RectRead =
    Enqueue<kReadRect, Memory*, Bool, Three, Three, Three, size_t, size_t, size_t, size_t, void*>;
using RectWrite = Enqueue<kWriteRect, Memory*, Bool, Three, Three, Three, size_t, size_t, size_t,
                          size_t, const void*>;
using RectCopy =
    Enqueue<kCopyRect, Memory*, Memory*, Three, Three, Three, size_t, size_t, size_t, size_t>;

template <typename F>
void hook(Call call, F* function) noexcept {
  if (target[call] != nullptr) table[call] = reinterpret_cast<Function>(function);
}

void install() noexcept {
  hook(kCreateQueue, create_queue);
  hook(kCreateQueueWithProperties, create_queue_with_properties);
  hook(kFinish, finish);
  hook(kWaitForEvents, wait_for_events);
  hook(kNdRangeKernel, Enqueue<kNdRange, Kernel*, uint32_t, Three, Three, Three>::call);
  hook(kTask, Enqueue<kTasks, Kernel*>::call);
  hook(kReadBuffer, Enqueue<kRead, Memory*, Bool, size_t, size_t, void*>::call);
  hook(kWriteBuffer, Enqueue<kWrite, Memory*, Bool, size_t, size_t, const void*>::call);
  hook(kCopyBuffer, Enqueue<kCopy, Memory*, Memory*, size_t, size_t, size_t>::call);
  hook(kReadBufferRect, RectRead::call);
  hook(kWriteBufferRect, RectWrite::call);
  hook(kCopyBufferRect, RectCopy::call);
  hook(kReadImage, Enqueue<kImageRead, Memory*, Bool, Three, Three, size_t, size_t, void*>::call);
  hook(kWriteImage,
       Enqueue<kImageWrite, Memory*, Bool, Three, Three, size_t, size_t, const void*>::call);
  hook(kCopyImage, Enqueue<kImageCopy, Memory*, Memory*, Three, Three, Three>::call);
  hook(kFillBuffer, Enqueue<kFill, Memory*, const void*, size_t, size_t, size_t>::call);
  hook(kMigrate, Enqueue<kMigration, uint32_t, Memory* const*, uint64_t>::call);
  hook(kSvmMemcpy, Enqueue<kSvmCopy, Bool, void*, const void*, size_t>::call);
  hook(kSvmFill, Enqueue<kSvmSet, void*, const void*, size_t, size_t>::call);
  hook(kUnmap, Enqueue<kUnmapping, Memory*, void*>::call);
}

}  // namespace
}  // namespace pilotlight::opencl

#define EXPORTED extern "C" __attribute__((visibility("default")))

EXPORTED int clGetLayerInfo(uint32_t name, size_t size, void* value, size_t* size_returned) {
  using namespace pilotlight::opencl;
  static const char title[] = "pilotlight";
  const uint32_t version = kLayerVersion100;
  const void* answer = name == kLayerApiVersion ? static_cast<const void*>(&version) : title;
  size_t bytes = name == kLayerApiVersion ? sizeof(version) : sizeof(title);
  if (name != kLayerApiVersion && name != kLayerName) return kInvalidValue;
  if (value != nullptr && size < bytes) return kInvalidValue;
  if (value != nullptr) memcpy(value, answer, bytes);
  if (size_returned != nullptr) *size_returned = bytes;
  return kSuccess;
}

EXPORTED int clInitLayer(uint32_t entries, const void* target_table, uint32_t* entries_returned,
                         const void** table_returned) {
  using namespace pilotlight::opencl;
  if (target_table == nullptr || entries_returned == nullptr || table_returned == nullptr) {
    return kInvalidValue;
  }
  // Loaders before OpenCL 2.0 have no queues with properties.
  if (entries <= kSetEventCallback) return kInvalidValue;
  static Function known[kMostCalls];
  uint32_t count = entries < kMostCalls ? entries : static_cast<uint32_t>(kMostCalls);
  memcpy(known, target_table, count * sizeof(Function));
  memcpy(table, target_table, count * sizeof(Function));
  target = known;
  install();
  *entries_returned = count;
  *table_returned = table;
  return kSuccess;
}
