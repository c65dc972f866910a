// native/cuda/window_watch.cpp
#include "cuda/window_watch.h"

#include <time.h>

#include <algorithm>

namespace pilotlight::cupti {
namespace {

constexpr uint32_t kLastSteps = 8;

// The typical one of the last steps, wherever they lie.
double last_steps_ns(const StepClock& steps, uint64_t count, double ticks_per_ns) noexcept {
  auto begun = [&](uint64_t step) {
    return steps.ticks[step % StepClock::kKept].load(std::memory_order_relaxed);
  };
  double lengths_ns[kLastSteps];
  uint32_t known = 0;
  for (uint64_t i = count; i > 1 && known < kLastSteps; i--) {
    auto ticks = static_cast<int64_t>(begun(i - 1) - begun(i - 2));
    if (ticks > 0) lengths_ns[known++] = static_cast<double>(ticks) / ticks_per_ns;
  }
  return typical(lengths_ns, known);
}

}  // namespace

WindowWatch::Counts WindowWatch::counts() const noexcept {
  return {launches_->launches(), launches_->graphs(),     launches_->cost_ticks(),
          launches_->calls(),    launches_->call_ticks(), decoder_->counts().overhead_ns,
          pool_->exhausted()};
}

void WindowWatch::begin(ClockKind tick_kind) noexcept {
  start_ns_ = clock_ns(CLOCK_MONOTONIC);
  start_ticks_ = ticks_of(tick_kind);
  before_ = counts();
}

// How many lie inside: those that both begin and end in this window.
uint32_t WindowWatch::take_steps(const StepClock& steps, double ticks_per_ns) noexcept {
  uint64_t count = steps.count.load(std::memory_order_acquire);
  uint32_t edges = 0;
  uint64_t from = std::max(steps_before_, count > kMaxSteps ? count - kMaxSteps - 1 : 0);
  for (uint64_t i = from; i < count; i++) {
    uint64_t ticks = steps.ticks[i % StepClock::kKept].load(std::memory_order_relaxed);
    auto edge_ns = static_cast<double>(static_cast<int64_t>(ticks - start_ticks_));
    edge_ns /= ticks_per_ns;
    if (edge_ns < (edges > 0 ? edges_ns_[edges - 1] : 0) || edges > kMaxSteps) continue;
    edges_ns_[edges++] = edge_ns;
  }
  // The last one is the beginning of the next window's first.
  steps_before_ = count > 0 ? count - 1 : 0;
  return edges > 0 ? edges - 1 : 0;
}

WindowFacts WindowWatch::end(WindowKind kind, int64_t now_ns, const StepClock& steps,
                             int64_t switch_ns) noexcept {
  Counts now = counts();
  double ticks_per_ns = clock_->ticks_per_ns();
  WindowFacts facts = {};
  facts.kind = kind;
  facts.duration_ns = now_ns - start_ns_;
  facts.launches = now.launches - before_.launches;
  facts.calls = now.calls - before_.calls;
  auto call_ticks = static_cast<double>(now.call_ticks - before_.call_ticks);
  if (facts.calls != 0) {
    facts.call_ns = call_ticks / ticks_per_ns / static_cast<double>(facts.calls);
  }
  auto cost_ticks = static_cast<double>(now.cost_ticks - before_.cost_ticks);
  facts.launch_cost_ns = static_cast<int64_t>(cost_ticks / ticks_per_ns);
  facts.cupti_cost_ns = static_cast<int64_t>(now.overhead_ns - before_.overhead_ns);
  facts.switch_ns = switch_ns;
  facts.overrun = now.exhausted != before_.exhausted;
  facts.step_ns = last_steps_ns(steps, steps.count.load(std::memory_order_acquire), ticks_per_ns);
  facts.steps = take_steps(steps, ticks_per_ns);
  facts.edges_ns = edges_ns_;
  return facts;
}

}  // namespace pilotlight::cupti
