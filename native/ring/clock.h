// native/ring/clock.h: the tick clock of records, the cheapest that this machine can trust.
#pragma once

#include <time.h>

#include <cstdint>

#include "ring/layout.h"

#if defined(__x86_64__)
#include <x86intrin.h>
#endif

namespace pilotlight {

inline int64_t clock_ns(clockid_t clock) noexcept {
  timespec t;
  clock_gettime(clock, &t);
  return int64_t{t.tv_sec} * 1000000000 + t.tv_nsec;
}

// Whether one instruction reads it, which is then ticks_at_once().
constexpr bool is_read_at_once(ClockKind kind) noexcept {
#if defined(__x86_64__)
  return kind == ClockKind::kTsc;
#elif defined(__aarch64__)
  return kind == ClockKind::kCntvct;
#else
  return false;
#endif
}

inline uint64_t ticks_at_once() noexcept {
#if defined(__x86_64__)
  return __rdtsc();
#elif defined(__aarch64__)
  uint64_t ticks;
  asm volatile("mrs %0, cntvct_el0" : "=r"(ticks));
  return ticks;
#else
  return 0;
#endif
}

inline uint64_t ticks_of(ClockKind kind) noexcept {
  if (is_read_at_once(kind)) return ticks_at_once();
  return static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC));
}

// The kernel itself trusts the TSC only where it is constant and synchronised over the CPUs; on
// aarch64 the virtual counter always is.
ClockKind trusted_clock() noexcept;

// The tightest of a few readings of the three clocks, and half the width of its tick reading.
ClockPair read_clocks(ClockKind kind) noexcept;

}  // namespace pilotlight
