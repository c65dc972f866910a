// native/cuda/gpu_clock.cpp
#include "cuda/gpu_clock.h"

#include <time.h>

#include <cmath>

namespace pilotlight::cupti {
namespace {

constexpr int kFirstTries = 100;
constexpr int kCheckTries = 8;
// More than any drift between two checks: the wall clock was set, or CUPTI was given another one.
constexpr double kJumpNs = 200000;
// Enough to tell a unit by; what is nearer to a nanosecond than this is one.
constexpr timespec kPause = {0, 2000000};
constexpr double kNear = 0.01;

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

// The longer ago CUPTI's clock became what it is, the better this is known.
void GpuClock::measure_unit() noexcept {
  auto units = static_cast<double>(static_cast<int64_t>(anchor_.gpu - since_.gpu));
  auto ns = static_cast<double>(anchor_.ticks - since_.ticks) / ticks_per_ns_;
  bool is_nanosecond = units <= 0 || ns <= 0 || std::fabs(units / ns - 1) < kNear;
  units_per_ns_ = is_nanosecond ? 1 : units / ns;
}

bool GpuClock::begin() noexcept {
  if (!read(kCheckTries, &since_)) return false;
  nanosleep(&kPause, nullptr);
  measure_rate();
  if (!read(kFirstTries, &anchor_)) return false;
  measure_unit();
  publish();
  return true;
}

bool GpuClock::open(Library* library, ClockKind kind) noexcept {
  library_ = library;
  kind_ = kind;
  if (first_.monotonic_ns == 0) first_ = read_clocks(kind);
  return begin();
}

void GpuClock::publish() noexcept {
  pthread_mutex_lock(&lock_);
  map_ = {anchor_.ticks, anchor_.gpu, ticks_per_ns_ / units_per_ns_, 1 / units_per_ns_};
  pthread_mutex_unlock(&lock_);
}

ClockMap GpuClock::map() const noexcept {
  pthread_mutex_lock(&lock_);
  ClockMap map = map_;
  pthread_mutex_unlock(&lock_);
  return map;
}

ClockMap GpuClock::map_of(uint64_t gpu, uint64_t earliest, uint64_t latest) const noexcept {
  ClockPair pair = read_clocks(kind_);
  pthread_mutex_lock(&lock_);
  const ClockMap maps[] = {map_,
                           before_,
                           {0, 0, 1, 1 / ticks_per_ns_},
                           {pair.ticks, static_cast<uint64_t>(pair.realtime_ns), ticks_per_ns_, 1}};
  pthread_mutex_unlock(&lock_);
  for (const ClockMap& map : maps) {
    uint64_t ticks = map.ticks(gpu);
    if (ticks >= earliest && ticks <= latest) return map;
  }
  return maps[0];
}

void GpuClock::check() noexcept {
  measure_rate();
  Anchor now = {};
  if (!read(kCheckTries, &now)) return;
  auto off = static_cast<double>(static_cast<int64_t>(map_.ticks(now.gpu) - now.ticks));
  if (std::fabs(off) / ticks_per_ns_ > kJumpNs + static_cast<double>(now.uncertainty_ns)) {
    jumps_++;
    pthread_mutex_lock(&lock_);
    before_ = map_;
    pthread_mutex_unlock(&lock_);
    begin();
    return;
  }
  anchor_ = now;
  measure_unit();
  publish();
}

}  // namespace pilotlight::cupti
