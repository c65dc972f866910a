// native/cuda/collector_told.cpp: what the collector says of itself: its plan, and counts once a
// second.
#include <algorithm>
#include <iterator>

#include "cuda/collector.h"
#include "cuda/neighbours.h"
#include "cuda/waiting.h"

namespace pilotlight::cupti {
namespace {

constexpr uint32_t kTellAgainSeconds = 10;

}  // namespace

// What is collected from now on, for clients that share it.
void Collector::tell_plan() noexcept {
  const Plan& plan = governor_.plan();
  double records = 0, launches = 0, samples = 0;
  if (holds_.load(std::memory_order_relaxed) && window_ != WindowKind::kNone) {
    auto cycle = static_cast<double>(plan.on_ns + plan.plain_ns + plan.quiet_ns);
    bool windows = has_clock_ && tier_ != kTierLaunches && tier_ != kTierAll;
    records = windows                           ? static_cast<double>(plan.on_ns) / cycle
              : has_clock_ && tier_ == kTierAll ? 1
                                                : 0;
    launches = windows ? static_cast<double>(plan.on_ns + plan.plain_ns) / cycle : 1;
    if (records_on_ && library_.facts().cannot_toggle) records = 1;
    if (can_sample()) {
      double turns = is_alone() ? 1 : 0.5;
      samples = method_->governor.plan().duty * turns;
      records *= 1 - turns;
    }
  }
  constexpr const char* kNames[] = {"gpu/tier", "gpu/duty", "gpu/launches_duty"};
  const double values[] = {static_cast<double>(tier_), records, launches};
  for (uint32_t i = 0; i < 3; i++) {
    if (values[i] != told_[i]) count(kNames[i], values[i]);
    told_[i] = values[i];
  }
  double* told = told_sampling_;
  for (const Method& method : methods_) {
    double ratio = &method == method_ ? samples : 0;
    if (ratio != *told) count(method.duty, ratio);
    *told++ = ratio;
  }
}

void Collector::second(int64_t now_ns) noexcept {
  next_second_ns_ = now_ns + kSecondNs;
  watch_neighbours();
  pthread_mutex_lock(&lock_);
  if (holds_.load(std::memory_order_relaxed)) {
    library_.flush(0);
    if (has_clock_) {
      clock_.check();
    } else if (const char* why = prepare_records()) {
      missing(why);
    }
  }
  PcCounts pc = pc_.counts();
  PmCounts pm = pm_.counts();
  RangeCounts range = range_.counts();
  Result pc_refused = pc_.refused(), pm_refused = pm_.refused(), range_refused = range_.refused();
  pthread_mutex_unlock(&lock_);
  struct {
    const char* name;
    uint64_t value;
  } const all[] = {{"gpu/names_shared", names_.shared()},
                   {"gpu/no_buffer_left", pool_.exhausted()},
                   {"gpu/clock_jumps", clock_.jumps()},
                   {"gpu/clock_uncertainty_ns", has_clock_ ? clock_.uncertainty_ns() : 0},
                   {"gpu/pc_samples", pc.samples},
                   {"gpu/pc_dropped", pc.dropped},
                   {"gpu/pc_other_samples", pc.other},
                   {"gpu/pc_lost", pc.lost},
                   {"gpu/pc_contexts_out", pc.contexts_out},
                   {"gpu/pc_refused", static_cast<uint64_t>(pc_refused)},
                   {"gpu/pm_samples", pm.samples},
                   {"gpu/pm_cut_windows", pm.cut_windows},
                   {"gpu/pm_lost", pm.lost},
                   {"gpu/pm_refused", static_cast<uint64_t>(pm_refused)},
                   {"gpu/range_samples", range.kernels},
                   {"gpu/range_dropped", range.dropped},
                   {"gpu/range_lost", range.lost},
                   {"gpu/range_unnamed", range.unnamed},
                   {"gpu/range_contexts_out", range.contexts_out},
                   {"gpu/range_refused", static_cast<uint64_t>(range_refused)}};
  static_assert(std::size(all) + std::size(kDecodeCounters) <= sizeof(shown_) / sizeof(shown_[0]));
  uint64_t* shown = shown_;
  auto show = [&](const char* name, uint64_t value) {
    if (value != *shown) count(name, static_cast<double>(value));
    *shown++ = value;
  };
  for (const auto& one : kDecodeCounters) show(one.name, decoder_.counts().*one.count);
  for (const auto& one : all) show(one.name, one.value);
  // What was last told may have found the ring full.
  if (++seconds_ % kTellAgainSeconds == 0) std::fill(std::begin(told_), std::end(told_), -1);
}

}  // namespace pilotlight::cupti
