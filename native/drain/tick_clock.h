// native/drain/tick_clock.h: turns ticks into nanoseconds of CLOCK_MONOTONIC.
//
// The agent does not believe the clocks that a segment states: ticks come from the same machine, so
// it pairs the two clocks itself, about once a second, and interpolates. NTP slews one clock
// against the other; between two pairs that is a straight line.
#pragma once

#include <array>
#include <cstdint>

#include "ring/clock.h"

namespace pilotlight {

class TickClock {
 public:
  explicit TickClock(ClockKind kind) noexcept : kind_(kind) {}

  // For a segment of another boot: the two pairs that it states, if they make sense.
  static TickClock stated(const ClockPair& base, const ClockPair& now) noexcept;

  // Takes a new pair if the last one is old enough. The first call may take 20 ms.
  void refresh() noexcept;

  int64_t to_ns(uint64_t ticks) const noexcept {
    if (kind_ == ClockKind::kMonotonic) {
      return static_cast<int64_t>(ticks < uint64_t{kFarNs} ? ticks : uint64_t{kFarNs});
    }
    uint32_t i = used_ - 1;
    while (i > 1 && ticks < knots_[i - 1].ticks) i--;
    const Knot& knot = knots_[i];
    // Signed: ticks before the first knot are extrapolated backwards.
    double distance = static_cast<double>(static_cast<int64_t>(ticks - knot.ticks));
    double ns = distance * knot.ns_per_tick;
    // Ticks are the producer's word: clamped, so that no difference of two times overflows.
    if (!(ns < static_cast<double>(kFarNs))) return kFarNs;
    if (ns < -static_cast<double>(kFarNs)) return -kFarNs;
    return knot.ns + static_cast<int64_t>(ns);
  }

 private:
  struct Knot {
    uint64_t ticks;
    int64_t ns;
    double ns_per_tick;  // of the line that ends here
  };
  static constexpr int64_t kFarNs = 2000000000000000000;
  void add(uint64_t ticks, int64_t ns) noexcept;

  ClockKind kind_;
  uint32_t used_ = 0;
  std::array<Knot, 64> knots_ = {};
};

// One for all segments of this machine and boot.
TickClock& machine_clock(ClockKind kind) noexcept;

}  // namespace pilotlight
