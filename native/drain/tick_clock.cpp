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
  uint64_t rate = sane ? rate_of(ns, ticks) : rate_of(1, 1);
  clock.knots_[0] = {base.ticks, origin, rate};
  clock.used_ = 1;
  return clock;
}

int64_t TickClock::far_to_ns(uint64_t ticks) const noexcept {
  if (kind_ == ClockKind::kMonotonic) {
    return static_cast<int64_t>(std::min(ticks, uint64_t{kFarNs}));
  }
  uint32_t i = used_ - 1;
  while (i > 1 && ticks < knots_[i - 1].ticks) i--;
  const Knot& knot = knots_[i];
  // Signed: ticks before the first knot are extrapolated backwards.
  auto distance = static_cast<int64_t>(ticks - knot.ticks);
  auto ns = static_cast<__int128>(distance) * static_cast<int64_t>(knot.rate) >> kRateBits;
  // Ticks are the producer's word: clamped, so that no difference of two times overflows.
  if (ns > kFarNs) return kFarNs;
  if (ns < -kFarNs) return -kFarNs;
  return knot.ns + static_cast<int64_t>(ns);
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
  uint64_t rate =
      rate_of(static_cast<double>(ns - last.ns), static_cast<double>(ticks - last.ticks));
  if (used_ == 1) knots_[0].rate = rate;
  if (used_ == knots_.size()) {
    std::copy(knots_.begin() + 1, knots_.end(), knots_.begin());
    used_--;
  }
  uint64_t from = knots_[used_ - 1].ticks;
  knots_[used_++] = {ticks, ns, rate};
  // The line may be long: half of what is near lies before its end, half behind.
  near_ticks_ = UINT64_MAX / std::max<uint64_t>(rate, 1);
  from = std::max(from, ticks - std::min(ticks, near_ticks_ / 2));
  near_ = {from, far_to_ns(from), rate};
}

TickClock& machine_clock(ClockKind kind) noexcept {
  static TickClock clocks[] = {TickClock(ClockKind::kMonotonic), TickClock(ClockKind::kTsc),
                               TickClock(ClockKind::kCntvct)};
  return clocks[static_cast<uint32_t>(kind)];
}

}  // namespace pilotlight
