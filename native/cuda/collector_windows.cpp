// native/cuda/collector_windows.cpp: the collector's windows: when they begin and end.
#include <stdio.h>

#include "cuda/collector.h"
#include "cuda/tiers.h"
#include "cuda/waiting.h"
#include "cuda/window_mark.h"

namespace pilotlight::cupti {
namespace {

constexpr uint32_t kNodesOneIn = 8;  // on windows, where there are graphs

}  // namespace

// Ends and begins windows when it is time, takes CUPTI again when it is free.
void Collector::turn(int64_t now_ns) noexcept {
  pthread_mutex_lock(&lock_);
  uint32_t tier = wanted_tier();
  bool paused = !api_->collecting->load(std::memory_order_relaxed);
  if (!paused) paused_since_ns_ = now_ns;
  noticed_pause_.store(paused, std::memory_order_relaxed);
  bool tier_changed = tier != tier_;
  tier_ = tier;
  if (holds_.load(std::memory_order_relaxed) && library_.has_unread_fields()) {
    missing("libcupti does not say where the fields of records lie; they come whole from now on");
    release(false);
    retry_ns_ = 0;
  }
  // Wanted again before a CUDA call came that could tear it down.
  if (tier != kTierOff && finalize_.exchange(false)) {
    let_go();
    retry_ns_ = 0;
  }
  if (tier == kTierOff) {
    if (holds_.load(std::memory_order_relaxed) && !finalize_.load(std::memory_order_relaxed)) {
      release(true);
    }
  } else if (!holds_.load(std::memory_order_relaxed)) {
    if (!others_.load(std::memory_order_relaxed) && now_ns >= retry_ns_) {
      retry_ns_ = now_ns + kRetryNs;
      if (take()) begin_window(tier_ == kTierAll ? next_window() : WindowKind::kPlain, now_ns);
    }
  } else if (paused) {
    if (window_ != WindowKind::kNone) {
      end_window(now_ns);
      window_ = WindowKind::kNone;
      set_sampling(kTierOff);
      set_records(false, false);
      if (library_.facts().cannot_toggle) {
        missing(
            "without kernels' instrumentation in a pause: libcupti 13.0 may hang when it is "
            "turned off, 13.0 update 1 does not");
      }
      if (launches_on_) launches_.enable(&library_, false);
      launches_on_ = false;
      api_->mark("gpu/window", 10, kMarkNothing);
      library_.flush(0);
    }
  } else if (window_ == WindowKind::kNone || now_ns >= window_end_ns_ || tier_changed ||
             ends_early()) {
    end_window(now_ns);
    set_sampling(tier_);
    begin_window(next_window(), now_ns);
  }
  tell_plan();
  pthread_mutex_unlock(&lock_);
}

// Before CUPTI finds no buffer: less is collected, but all of it. Not where all was asked for.
bool Collector::ends_early() const noexcept {
  if (window_ == WindowKind::kOn && is_sampling_ && method_->sampler->is_full()) return true;
  return window_ == WindowKind::kOn && tier_ != kTierAll && pool_.is_low();
}

WindowKind Collector::next_window() noexcept {
  if (!has_clock_ || tier_ == kTierLaunches) return WindowKind::kPlain;
  if (tier_ == kTierAll) return WindowKind::kOn;
  WindowKind next = governor().after(window_);
  if (next == WindowKind::kOn) is_sampling_ = samples_next();
  return next;
}

int64_t Collector::window_ns(WindowKind window) noexcept {
  if (tier_ == kTierAll || tier_ == kTierLaunches) return kSecondNs;
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return governor().length_ns(window, random_);
}

void Collector::begin_window(WindowKind window, int64_t now_ns) noexcept {
  choose_graphs();
  bool samples = window == WindowKind::kOn && is_sampling_;
  bool on = window == WindowKind::kOn && !samples;
  // Where they are asked for, from the start: CUPTI wants to know before a graph is instantiated.
  bool nodes = on && !without_nodes_ &&
               (tier_ == kTierNodes || tier_ == kTierAll ||
                (saw_graph_.load(std::memory_order_relaxed) && ++on_windows_ % kNodesOneIn == 0));
  bool launches = window != WindowKind::kQuiet;
  bool launched = launches_on_;
  bool toggles = !library_.facts().cannot_toggle;
  if (launches != launches_on_) {
    launches_.enable(&library_, launches);
    launches_on_ = launches;
  }
  // Where switching off may hang, records stay as they were first.
  bool changes = on != records_on_ || nodes != nodes_on_;
  if (changes && (toggles || (on && !records_on_))) set_records(on, nodes);
  if (nodes && !nodes_on_ && !toggles) {
    missing(
        "no nodes of graphs: libcupti 13.0 may hang when they are turned on; 13.0 update 1 does "
        "not");
  }
  if (changes || launches != launched || window_ == WindowKind::kNone) mark_window();
  if (samples && method_->sampler->refused() == kHardwareBusy) {
    method_->sampler->refuse(kSuccess);
    busy_until_ns_ = clock_ns(CLOCK_MONOTONIC) + kRetryNs;
  }
  if (samples && method_->sampler->start() != kSuccess) {
    char text[128];
    Result result = method_->sampler->refused();
    snprintf(text, sizeof(text), "no %s: CUPTI refuses with %d%s", method_->title, result,
             words_of(result));
    missing(text);
  }
  window_ = window;
  watch_.begin(tick_kind_);
  window_end_ns_ = now_ns + window_ns(window);
}

void Collector::mark_window() noexcept {
  int64_t mark = !launches_on_ ? kMarkNothing
                 : nodes_on_   ? kMarkNodes
                 : records_on_ ? kMarkRecords
                               : kMarkLaunches;
  api_->mark("gpu/window", 10, mark);
}

void Collector::end_window(int64_t now_ns) noexcept {
  if (window_ == WindowKind::kNone) return;
  if (window_ == WindowKind::kOn && is_sampling_) method_->sampler->stop();
  governor().observe(watch_.end(window_, now_ns, *api_->steps, switch_ns()));
  watch_graphs(now_ns);
  if (window_ == WindowKind::kOn) library_.flush(0);
  if (window_ == WindowKind::kOn || tier_ == kTierAll) return;
  const Overhead& overhead = governor().overhead();
  if (overhead.pairs >= 3) {
    count(is_sampling_ ? method_->ratio : "gpu/overhead_ratio", overhead.ratio);
    count(is_sampling_ ? method_->low : "gpu/overhead_low", overhead.low);
    count(is_sampling_ ? method_->high : "gpu/overhead_high", overhead.high);
  }
  count("gpu/launch_ratio", governor().launch_ratio());
  count("gpu/spent_ratio", governor().spent_ratio());
}

}  // namespace pilotlight::cupti
