// native/opencl/queues.cpp
#include "opencl/queues.h"

#include <stdio.h>

#include "opencl/target.h"
#include "provider/brief_lock.h"

namespace pilotlight::opencl {
namespace {

constexpr uint32_t kMaxQueues = 1 << 10;
constexpr uint32_t kMaxDevices = 64;

std::atomic_flag tracks_lock = ATOMIC_FLAG_INIT;
DeviceClock devices[kMaxDevices];
uint32_t device_count = 0;
QueueTrack tracks[kMaxQueues];

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

}  // namespace

int64_t DeviceClock::offset_ns(int64_t before_ns, int64_t after_ns, int64_t queued_ns) noexcept {
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

// The driver is asked without the lock: it may take its time.
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

}  // namespace pilotlight::opencl
