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
    // Nearly always on the newest line, within a second or so of its end.
    uint64_t since = ticks - near_.ticks;
    if (since < near_ticks_)
      return near_.ns + static_cast<int64_t>(since * near_.rate >> kRateBits);
    return far_to_ns(ticks);
  }

 private:
  struct Knot {
    uint64_t ticks;
    int64_t ns;
    uint64_t rate;  // ns a tick times 2^kRateBits, of the line that ends here
  };
  static constexpr int64_t kFarNs = 2000000000000000000;
  static constexpr int kRateBits = 32;
  static uint64_t rate_of(double ns, double ticks) noexcept {
    return static_cast<uint64_t>(ns / ticks * static_cast<double>(uint64_t{1} << kRateBits));
  }
  int64_t far_to_ns(uint64_t ticks) const noexcept;
  void add(uint64_t ticks, int64_t ns) noexcept;

  ClockKind kind_;
  uint32_t used_ = 0;
  Knot near_ = {};           // a place on the newest line, with its rate
  uint64_t near_ticks_ = 0;  // from there on; times the rate they fit into 64 bits
  std::array<Knot, 64> knots_ = {};
};

// One for all segments of this machine and boot.
TickClock& machine_clock(ClockKind kind) noexcept;

}  // namespace pilotlight
