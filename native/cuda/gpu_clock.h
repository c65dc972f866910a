// native/cuda/gpu_clock.h: from CUPTI's time to the ticks of our records.
//
// CUPTI tells nanoseconds, unless another tool has given it a clock of its own: PyTorch's profiler
// does, it counts the processor's ticks, and CUPTI keeps it when that tool has left. So the unit is
// measured.
#pragma once

#include <pthread.h>

#include <cstdint>

#include "cuda/cupti_library.h"
#include "ring/clock.h"

namespace pilotlight::cupti {

// One instant on both clocks, and how far off the pair may be.
struct Anchor {
  uint64_t ticks;
  uint64_t gpu;  // in CUPTI's unit
  uint64_t uncertainty_ns;
};

// Linear around an anchor.
struct ClockMap {
  uint64_t ticks_at, gpu_at;
  double ticks_per_unit, ns_per_unit;

  uint64_t ticks(uint64_t gpu) const noexcept {
    auto delta = static_cast<double>(static_cast<int64_t>(gpu - gpu_at));
    return ticks_at + static_cast<uint64_t>(static_cast<int64_t>(delta * ticks_per_unit));
  }
  uint64_t length_ticks(uint64_t gpu) const noexcept {
    return static_cast<uint64_t>(static_cast<double>(gpu) * ticks_per_unit);
  }
  uint64_t length_ns(uint64_t gpu) const noexcept {
    return static_cast<uint64_t>(static_cast<double>(gpu) * ns_per_unit);
  }
};

// Checked by one thread, asked for its map by another.
class GpuClock {
 public:
  // The best of many readings; false: CUPTI has no time to tell.
  bool open(Library* library, ClockKind kind) noexcept;
  // About once a second: a few readings, so that drift is followed and jumps are seen.
  void check() noexcept;

  // As it is now, for a while: to be used by one thread without a lock.
  ClockMap map() const noexcept;
  // The one by which this time of a record lies between these ticks: that of now; that of before
  // CUPTI's clock jumped; our own ticks, or the wall clock, where a tool gave CUPTI a clock that
  // cuptiGetTimestamp does not follow. That of now if none does.
  ClockMap map_of(uint64_t gpu, uint64_t earliest, uint64_t latest) const noexcept;
  uint64_t first_ticks() const noexcept { return first_.ticks; }
  ClockKind kind() const noexcept { return kind_; }
  double ticks_per_ns() const noexcept { return ticks_per_ns_; }
  uint64_t uncertainty_ns() const noexcept { return anchor_.uncertainty_ns; }
  uint64_t jumps() const noexcept { return jumps_; }

 private:
  bool read(int tries, Anchor* best) noexcept;
  bool begin() noexcept;
  void measure_rate() noexcept;
  void measure_unit() noexcept;
  void publish() noexcept;

  Library* library_ = nullptr;
  ClockKind kind_ = ClockKind::kMonotonic;
  double ticks_per_ns_ = 1;
  double units_per_ns_ = 1;
  ClockPair first_ = {};
  Anchor since_ = {};  // from when on CUPTI has the clock that it has now
  Anchor anchor_ = {};
  ClockMap map_ = {0, 0, 1, 1};
  ClockMap before_ = {0, 0, 1, 1};  // the last jump
  mutable pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  uint64_t jumps_ = 0;
};

}  // namespace pilotlight::cupti
