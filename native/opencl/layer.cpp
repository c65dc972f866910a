// native/opencl/layer.cpp: libpilotlight_opencl.so, a layer between a program and the OpenCL loader
// (OPENCL_LAYERS). Each command that is put into a queue becomes a launch, with its Python stack,
// and, when the device has done it, an activity with the device's own times on the queue's track.
#include <string.h>

#include <tuple>

#include "opencl/commands.h"
#include "opencl/queues.h"
#include "opencl/target.h"

namespace pilotlight::opencl {

const Function* target = nullptr;

namespace {

constexpr uint32_t kMaxProperties = 32;

Function table[kMostCalls];  // ours

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

// Puts a command into a queue by `go_on`, which is told where the event goes.
template <typename F>
int put(const Command& command, Queue* queue, Kernel* kernel, int64_t bytes, Event** event,
        F&& go_on) {
  const ProviderApi* api = api_now();
  if (api == nullptr) return go_on(event);
  RingWriter* ring = api->ring();
  uint64_t start_ticks = ring != nullptr ? ticks_of(ring->clock()) : 0;
  int64_t before_ns = clock_ns(CLOCK_MONOTONIC);
  Event* ours = nullptr;
  Event** given = event != nullptr ? event : &ours;
  int error = go_on(given);
  if (error == kSuccess && *given != nullptr) {
    watch(*api, command, queue, *given, kernel, bytes, before_ns, start_ticks, event != nullptr);
  }
  return error;
}

// A function that puts a command into a queue; they differ in what is between queue and waits.
template <const Command& command, typename... Args>
struct Enqueue {
  static int call(Queue* queue, Args... args, uint32_t waits, Event* const* wait_list,
                  Event** event) {
    using F = int(Queue*, Args..., uint32_t, Event* const*, Event**);
    return put(command, queue, kernel_in(args...), bytes_in<command.bytes_at>(args...), event,
               [&](Event** given) {
                 return next<F>(command.call)(queue, args..., waits, wait_list, given);
               });
  }
};

// One that gives a place of the host's memory.
template <const Command& command, typename... Args>
struct Map {
  static void* call(Queue* queue, Args... args, uint32_t waits, Event* const* wait_list,
                    Event** event, int* error) {
    using F = void*(Queue*, Args..., uint32_t, Event* const*, Event**, int*);
    void* place = nullptr;
    int answer = put(
        command, queue, nullptr, bytes_in<command.bytes_at>(args...), event, [&](Event** given) {
          int found = kSuccess;
          place = next<F>(command.call)(queue, args..., waits, wait_list, given, &found);
          return found;
        });
    if (error != nullptr) *error = answer;
    return place;
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
  const ProviderApi* api = attach_once();
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
constexpr Command kImageToBuffer = {kCopyImageToBuffer, "clEnqueueCopyImageToBuffer",
                                    ActivityKind::kMemcpy, -1};
constexpr Command kBufferToImage = {kCopyBufferToImage, "clEnqueueCopyBufferToImage",
                                    ActivityKind::kMemcpy, -1};
constexpr Command kBufferMap = {kMapBuffer, "clEnqueueMapBuffer", ActivityKind::kMemcpy, 4};
constexpr Command kImageMap = {kMapImage, "clEnqueueMapImage", ActivityKind::kMemcpy, -1};
constexpr Command kNative = {kNativeKernel, "clEnqueueNativeKernel", ActivityKind::kKernel, -1};
constexpr Command kImageFill = {kFillImage, "clEnqueueFillImage", ActivityKind::kMemset, -1};
constexpr Command kSvmMapping = {kSvmMap, "clEnqueueSVMMap", ActivityKind::kMemcpy, 3};
constexpr Command kSvmUnmapping = {kSvmUnmap, "clEnqueueSVMUnmap", ActivityKind::kMemcpy, -1};
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
  hook(kCopyImageToBuffer, Enqueue<kImageToBuffer, Memory*, Memory*, Three, Three, size_t>::call);
  hook(kCopyBufferToImage, Enqueue<kBufferToImage, Memory*, Memory*, size_t, Three, Three>::call);
  hook(kMapBuffer, Map<kBufferMap, Memory*, Bool, uint64_t, size_t, size_t>::call);
  hook(kMapImage, Map<kImageMap, Memory*, Bool, uint64_t, Three, Three, size_t*, size_t*>::call);
  hook(kNativeKernel,
       Enqueue<kNative, Function, void*, size_t, uint32_t, Memory* const*, const void**>::call);
  hook(kFillImage, Enqueue<kImageFill, Memory*, const void*, Three, Three>::call);
  hook(kSvmMap, Enqueue<kSvmMapping, Bool, uint64_t, void*, size_t>::call);
  hook(kSvmUnmap, Enqueue<kSvmUnmapping, void*>::call);
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
