// native/provider/host_clock.h: times of CLOCK_MONOTONIC as ticks of the rings.
#pragma once

#include <time.h>

#include <atomic>
#include <cstdint>

#include "ring/clock.h"

namespace pilotlight {

// By two readings of both clocks, the first when it is opened: good for times near now.
class HostClock {
 public:
  // May be called again, by any thread; the first call counts.
  void open(ClockKind kind) noexcept {
    uint32_t state = 0;
    if (!state_.compare_exchange_strong(state, 1)) return;
    kind_ = kind;
    since_ns_ = clock_ns(CLOCK_MONOTONIC);
    since_ticks_ = ticks_of(kind);
    state_.store(2, std::memory_order_release);
  }

  // 0: not opened.
  uint64_t ticks_at(int64_t time_ns) const noexcept {
    if (state_.load(std::memory_order_acquire) != 2) return 0;
    int64_t now_ns = clock_ns(CLOCK_MONOTONIC);
    uint64_t now_ticks = ticks_of(kind_);
    if (now_ns <= since_ns_) return now_ticks;
    double pace =
        static_cast<double>(now_ticks - since_ticks_) / static_cast<double>(now_ns - since_ns_);
    double ago = static_cast<double>(now_ns - time_ns) * pace;
    return now_ticks - static_cast<uint64_t>(static_cast<int64_t>(ago));
  }

 private:
  std::atomic<uint32_t> state_{0};
  ClockKind kind_ = ClockKind::kMonotonic;
  int64_t since_ns_ = 0;
  uint64_t since_ticks_ = 0;
};

}  // namespace pilotlight
