// native/ring/clock.cpp
#include "ring/clock.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

namespace pilotlight {

ClockKind trusted_clock() noexcept {
#if defined(__aarch64__)
  return ClockKind::kCntvct;
#elif defined(__x86_64__)
  char name[16] = {};
  int fd = open("/sys/devices/system/clocksource/clocksource0/current_clocksource",
                O_RDONLY | O_CLOEXEC);
  if (fd < 0) return ClockKind::kMonotonic;
  ssize_t got = read(fd, name, sizeof(name) - 1);
  close(fd);
  // kvm-clock and hyperv_clocksource_tsc_page read the TSC too, but may rescale it on migration.
  return got >= 3 && memcmp(name, "tsc", 3) == 0 ? ClockKind::kTsc : ClockKind::kMonotonic;
#else
  return ClockKind::kMonotonic;
#endif
}

ClockPair read_clocks(ClockKind kind) noexcept {
  ClockPair best = {};
  uint64_t best_width = ~0ull;
  for (int attempt = 0; attempt < 5; attempt++) {
    uint64_t before = ticks_of(kind);
    int64_t monotonic = clock_ns(CLOCK_MONOTONIC);
    uint64_t after = ticks_of(kind);
    int64_t realtime = clock_ns(CLOCK_REALTIME);
    if (after - before < best_width) {
      best_width = after - before;
      best = {before + (after - before) / 2, monotonic, realtime};
    }
  }
  return best;
}

}  // namespace pilotlight
