// native/cuda/gpu_clock.cpp
#include "cuda/gpu_clock.h"

#include <time.h>

#include <cmath>

namespace pilotlight::cupti {
namespace {

constexpr int kFirstTries = 100;
constexpr int kCheckTries = 8;
// More than any drift between two checks: the wall clock was set.
constexpr double kJumpNs = 200000;

}  // namespace

bool GpuClock::read(int tries, Anchor* best) noexcept {
  uint64_t best_width = ~0ull;
  for (int i = 0; i < tries; i++) {
    uint64_t gpu = 0;
    uint64_t before = ticks_of(kind_);
    if (library_->timestamp(&gpu) != kSuccess || gpu == 0) return false;
    uint64_t after = ticks_of(kind_);
    if (after - before >= best_width) continue;
    best_width = after - before;
    auto half_ns = static_cast<double>(best_width) / ticks_per_ns_ / 2;
    *best = {before + best_width / 2, gpu, static_cast<uint64_t>(half_ns) + 1};
  }
  return true;
}

// Ticks in a nanosecond, ever better as time goes by. CUPTI's clock and CLOCK_MONOTONIC are slewed
// alike.
void GpuClock::measure_rate() noexcept {
  if (kind_ == ClockKind::kMonotonic) return;
  ClockPair now = read_clocks(kind_);
  int64_t elapsed_ns = now.monotonic_ns - first_.monotonic_ns;
  if (elapsed_ns <= 0) return;
  ticks_per_ns_ = static_cast<double>(now.ticks - first_.ticks) / static_cast<double>(elapsed_ns);
}

bool GpuClock::open(Library* library, ClockKind kind) noexcept {
  library_ = library;
  kind_ = kind;
  if (first_.monotonic_ns == 0 && kind != ClockKind::kMonotonic) {
    first_ = read_clocks(kind);
    timespec pause = {0, 2000000};
    nanosleep(&pause, nullptr);
  }
  measure_rate();
  if (!read(kFirstTries, &anchor_)) return false;
  publish();
  return true;
}

void GpuClock::publish() noexcept {
  pthread_mutex_lock(&lock_);
  map_ = {anchor_.ticks, anchor_.gpu_ns, ticks_per_ns_};
  pthread_mutex_unlock(&lock_);
}

ClockMap GpuClock::map() const noexcept {
  pthread_mutex_lock(&lock_);
  ClockMap map = map_;
  pthread_mutex_unlock(&lock_);
  return map;
}

void GpuClock::check() noexcept {
  measure_rate();
  Anchor now = {};
  if (!read(kCheckTries, &now)) return;
  auto off = static_cast<double>(static_cast<int64_t>(map_.ticks(now.gpu_ns) - now.ticks));
  if (std::fabs(off) / ticks_per_ns_ > kJumpNs + static_cast<double>(now.uncertainty_ns)) jumps_++;
  anchor_ = now;
  publish();
}

}  // namespace pilotlight::cupti
