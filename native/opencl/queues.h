// native/opencl/queues.h: queues of commands: the track of each, and the clock of its device.
#pragma once

#include <atomic>
#include <cstdint>

#include "opencl/opencl_abi.h"
#include "provider/provider_api.h"

namespace pilotlight::opencl {

// The device's clock against ours: every command was queued between two moments that we know, so
// each narrows the difference down.
struct DeviceClock {
  Device* device;
  uint16_t number;
  std::atomic_flag lock;
  bool is_known;
  int64_t least_ns, most_ns;

  int64_t offset_ns(int64_t before_ns, int64_t after_ns, int64_t queued_ns) noexcept;
};

struct QueueTrack {
  Queue* queue;
  DeviceClock* clock;
  uint32_t track, run;
};

// Where the activities of a queue go; made anew for a queue at a place where another was. Without a
// clock: it could not be had.
QueueTrack track_of(const ProviderApi& api, Queue* queue, bool is_new) noexcept;

}  // namespace pilotlight::opencl
