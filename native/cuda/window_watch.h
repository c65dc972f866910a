// native/cuda/window_watch.h: what happened in a window, for the governor.
#pragma once

#include <cstdint>

#include "cuda/buffer_pool.h"
#include "cuda/decoder.h"
#include "cuda/governor.h"
#include "cuda/gpu_clock.h"
#include "cuda/launches.h"
#include "provider/provider_api.h"

namespace pilotlight::cupti {

class WindowWatch {
 public:
  WindowWatch(const Launches* launches, const Decoder* decoder, const BufferPool* pool,
              const GpuClock* clock) noexcept
      : launches_(launches), decoder_(decoder), pool_(pool), clock_(clock) {}

  void begin(ClockKind tick_kind) noexcept;
  // Since then; valid until the next one ends. `switch_ns`: turning records on and off once.
  WindowFacts end(WindowKind kind, int64_t now_ns, const StepClock& steps,
                  int64_t switch_ns) noexcept;

  int64_t start_ns() const noexcept { return start_ns_; }
  // Of whole graphs since it began.
  uint64_t graphs() const noexcept { return launches_->graphs() - before_.graphs; }

 private:
  struct Counts {
    uint64_t launches, graphs, cost_ticks, calls, call_ticks, overhead_ns, exhausted;
  };
  Counts counts() const noexcept;
  uint32_t take_steps(const StepClock& steps, double ticks_per_ns) noexcept;

  const Launches* launches_;
  const Decoder* decoder_;
  const BufferPool* pool_;
  const GpuClock* clock_;
  int64_t start_ns_ = 0;
  uint64_t start_ticks_ = 0;
  Counts before_ = {};
  uint64_t steps_before_ = 0;
  double edges_ns_[kMaxSteps + 1] = {};  // of the steps of the window that ended
};

}  // namespace pilotlight::cupti
