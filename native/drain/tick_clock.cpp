// native/drain/tick_clock.cpp
#include "drain/tick_clock.h"

#include <algorithm>

namespace pilotlight {
namespace {

constexpr int64_t kKnotSpacingNs = 1000000000;
constexpr int64_t kFirstSpacingNs = 20000000;

}  // namespace

TickClock TickClock::stated(const ClockPair& base, const ClockPair& now) noexcept {
  TickClock clock(ClockKind::kTsc);
  double ticks = static_cast<double>(static_cast<int64_t>(now.ticks - base.ticks));
  double ns = static_cast<double>(now.monotonic_ns) - static_cast<double>(base.monotonic_ns);
  bool sane = ticks > 0 && ns > 0 && ns / ticks > 0.01 && ns / ticks < 1000;
  int64_t origin = std::clamp<int64_t>(base.monotonic_ns, 0, kFarNs);
  // One tick a nanosecond is as good as any when nothing believable is stated.
  double rate = sane ? ns / ticks : 1.0;
  clock.knots_[0] = {base.ticks, origin, rate};
  clock.used_ = 1;
  return clock;
}

void TickClock::refresh() noexcept {
  if (kind_ == ClockKind::kMonotonic) return;
  ClockPair now = read_clocks(kind_);
  if (used_ == 0) {
    knots_[0] = {now.ticks, now.monotonic_ns, 0};
    used_ = 1;
    while (now.monotonic_ns - knots_[0].ns < kFirstSpacingNs) {
      timespec pause = {0, kFirstSpacingNs};
      nanosleep(&pause, nullptr);
      now = read_clocks(kind_);
    }
    add(now.ticks, now.monotonic_ns);
    return;
  }
  if (now.monotonic_ns - knots_[used_ - 1].ns >= kKnotSpacingNs) add(now.ticks, now.monotonic_ns);
}

void TickClock::add(uint64_t ticks, int64_t ns) noexcept {
  const Knot& last = knots_[used_ - 1];
  if (ticks <= last.ticks) return;
  double rate = static_cast<double>(ns - last.ns) / static_cast<double>(ticks - last.ticks);
  if (used_ == 1) knots_[0].ns_per_tick = rate;
  if (used_ == knots_.size()) {
    std::copy(knots_.begin() + 1, knots_.end(), knots_.begin());
    used_--;
  }
  knots_[used_++] = {ticks, ns, rate};
}

TickClock& machine_clock(ClockKind kind) noexcept {
  static TickClock clocks[] = {TickClock(ClockKind::kMonotonic), TickClock(ClockKind::kTsc),
                               TickClock(ClockKind::kCntvct)};
  return clocks[static_cast<uint32_t>(kind)];
}

}  // namespace pilotlight
