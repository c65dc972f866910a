// native/cuda/collector_windows.cpp: the collector's windows: when they begin and end, what is on
// in them, and what is told of them.
#include <stdio.h>

#include <algorithm>
#include <iterator>

#include "cuda/collector.h"
#include "cuda/neighbours.h"
#include "cuda/tiers.h"
#include "cuda/waiting.h"
#include "cuda/window_mark.h"

namespace pilotlight::cupti {
namespace {

constexpr uint32_t kNodesOneIn = 8;  // on windows, where there are graphs
constexpr uint32_t kTellAgainSeconds = 10;
constexpr uint32_t kLastSteps = 8;

constexpr Kind kRecords[] = {kConcurrentKernel, kMemcpy,  kMemcpyPeer, kMemset,
                             kSynchronization,  kMemory2, kOverhead};

}  // namespace

void Collector::set_records(bool on, bool nodes) noexcept {
  // A whole graph or its nodes: never both. Records of nodes come by the kind of their work.
  bool want_nodes = on && (nodes || !has_graphs_);
  bool changes = want_nodes != nodes_on_;
  if (!changes && on == records_on_) return;
  int64_t began_ns = clock_ns(CLOCK_MONOTONIC);
  if (records_on_ && (!on || changes)) switch_records(false);
  if (changes && (!has_graphs_ || library_.show_nodes(want_nodes) == kSuccess)) {
    nodes_on_ = want_nodes;
  }
  if (on && !records_on_) switch_records(true);
  Switches& switches = switches_[on ? 1 : 0];
  switches.last_ns[switches.count++ % 2] = clock_ns(CLOCK_MONOTONIC) - began_ns;
}

// On and off once: the shorter of the last two times each, since in the other one our thread may
// have waited for a core. Not before there are two beside the first, for which CUPTI prepares
// itself.
int64_t Collector::switch_ns() const noexcept {
  int64_t sum_ns = 0;
  for (const Switches& switches : switches_) {
    if (switches.count > 2) sum_ns += std::min(switches.last_ns[0], switches.last_ns[1]);
  }
  return sum_ns;
}

void Collector::switch_records(bool on) noexcept {
  char text[128];
  for (Kind kind : kRecords) {
    Result result = on ? library_.enable(kind) : library_.disable(kind);
    if (on && result != kSuccess && kind == kConcurrentKernel) {
      snprintf(text, sizeof(text), "no kernel records: cuptiActivityEnable failed with %d", result);
      missing(text);
    }
  }
  set_external(on);
  records_on_ = on;
}

// Only where the user wants it: CUPTI then makes a record of each launching call, too.
void Collector::set_external(bool on) noexcept {
  static const bool is_wanted = is_external_wanted();
  if (!is_wanted) return;
  if (library_.api() == Api::kV2) {
    return missing("no external ids: from libcupti 13.3 on each tool has its own");
  }
  Result result =
      on ? library_.enable(kExternalCorrelation) : library_.disable(kExternalCorrelation);
  if (launches_.enable_records(&library_, on) != kSuccess) {
    for (Kind kind : {kDriverApi, kRuntimeApi}) on ? library_.enable(kind) : library_.disable(kind);
  }
  if (on && result != kSuccess) missing("no external ids: cuptiActivityEnable failed");
}

// Before the first cycle with the method of this tier, if it has one, and after the last one.
void Collector::set_sampling(uint32_t tier) noexcept {
  Method* wanted = nullptr;
  for (Method& method : methods_) {
    if (method.tier == tier) wanted = &method;
  }
  if (wanted == method_) return;
  if (method_ != nullptr) {
    notes_contexts_.store(nullptr, std::memory_order_release);
    method_->sampler->close();
    if (is_alone() && has_graphs_) library_.enable(kGraphTrace);
    is_sampling_ = false;
  }
  method_ = wanted;
  if (method_ == nullptr) return;
  method_->sampler->open(&library_, api_, &clock_);
  if (is_alone() && library_.facts().cannot_toggle) {
    method_->sampler->refuse(kNotCompatible);
  } else if (is_alone()) {
    set_records(false, false);
    if (has_graphs_) library_.disable(kGraphTrace);
  }
  notes_contexts_.store(method_->sampler, std::memory_order_release);
}

// Whether the method excludes device records, also those of graphs.
bool Collector::is_alone() const noexcept {
  if (method_->tier == kTierRange) return true;
  return method_->tier == kTierPc && !library_.facts().samples_beside;
}

bool Collector::can_sample() const noexcept {
  if (method_ == nullptr) return false;
  Result refused = method_->sampler->refused();
  // Whoever has the counters may let go of them.
  bool asks_again = refused == kHardwareBusy && clock_ns(CLOCK_MONOTONIC) >= busy_until_ns_;
  return refused == kSuccess || asks_again;
}

// Records and the method take turns, so that whoever asked for records has them meanwhile.
bool Collector::samples_next() const noexcept {
  return can_sample() && (is_alone() || !is_sampling_);
}

// Ends and begins windows when it is time, takes CUPTI again when it is free.
void Collector::turn(int64_t now_ns) noexcept {
  pthread_mutex_lock(&lock_);
  uint32_t tier = wanted_tier();
  bool paused = !api_->collecting->load(std::memory_order_relaxed);
  bool tier_changed = tier != tier_;
  tier_ = tier;
  if (holds_.load(std::memory_order_relaxed) && library_.has_unread_fields()) {
    missing("libcupti does not say where the fields of records lie; they come whole from now on");
    release(false);
    retry_ns_ = 0;
  }
  if (tier == kTierOff) {
    if (holds_.load(std::memory_order_relaxed) && !finalize_.load(std::memory_order_relaxed)) {
      release(true);
    }
  } else if (!holds_.load(std::memory_order_relaxed)) {
    if (!others_.load(std::memory_order_relaxed) && now_ns >= retry_ns_) {
      retry_ns_ = now_ns + kRetryNs;
      if (take()) begin_window(tier_ == kTierAll ? next_window() : Window::kPlain, now_ns);
    }
  } else if (paused) {
    if (window_ != Window::kNone) {
      end_window(now_ns);
      window_ = Window::kNone;
      set_sampling(kTierOff);
      set_records(false, false);
      if (launches_on_) launches_.enable(&library_, false);
      launches_on_ = false;
      api_->mark("gpu/window", 10, kMarkNothing);
      library_.flush(0);
    }
  } else if (window_ == Window::kNone || now_ns >= window_end_ns_ || tier_changed || ends_early()) {
    finalize_.store(false, std::memory_order_relaxed);
    end_window(now_ns);
    set_sampling(tier_);
    begin_window(next_window(), now_ns);
  }
  tell_plan();
  pthread_mutex_unlock(&lock_);
}

// Before CUPTI finds no buffer: less is collected, but all of it. Not where all was asked for.
bool Collector::ends_early() const noexcept {
  if (window_ == Window::kOn && is_sampling_ && method_->sampler->is_full()) return true;
  return window_ == Window::kOn && tier_ != kTierAll && pool_.is_low();
}

Collector::Window Collector::next_window() noexcept {
  if (!has_clock_ || tier_ == kTierLaunches) return Window::kPlain;
  if (tier_ == kTierAll) return Window::kOn;
  if (window_ == Window::kOn) return Window::kPlain;
  if (window_ == Window::kPlain && governor().plan().quiet_ns > 0) return Window::kQuiet;
  is_sampling_ = samples_next();
  return Window::kOn;
}

int64_t Collector::window_ns(Window window) noexcept {
  const Plan& plan = governor().plan();
  if (tier_ == kTierAll || tier_ == kTierLaunches) return kSecondNs;
  int64_t length = window == Window::kOn      ? plan.on_ns
                   : window == Window::kPlain ? plan.plain_ns
                                              : plan.quiet_ns;
  // Spread by a quarter either way, so that work with a rhythm of its own is not always met at the
  // same beat; the mean stays.
  random_ ^= random_ << 13;
  random_ ^= random_ >> 7;
  random_ ^= random_ << 17;
  return length * 3 / 4 + static_cast<int64_t>(random_ % static_cast<uint64_t>(length / 2 + 1));
}

void Collector::watch_graphs(int64_t now_ns) noexcept {
  // While a method excludes device records, those of graphs are off as well.
  if (!launches_on_ || (method_ != nullptr && is_alone())) return;
  uint64_t launched = launches_.graphs() - graphs_before_;
  if (nodes_on_) {
    node_records_.observe(launched, decoder_.counts().nodes, window_start_ns_, now_ns);
  } else if (has_graphs_) {
    wholes_.observe(launched, decoder_.counts().graphs, window_start_ns_, now_ns);
  }
}

// Between windows: what CUPTI does not show in one way may come in the other.
void Collector::choose_graphs() noexcept {
  // Those who were beside us have left: graphs as a whole again.
  if (!has_graphs_ && !records_on_ && library_.api() == Api::kV2 && !without_wholes_ &&
      sharers_.load(std::memory_order_relaxed) == 0) {
    has_graphs_ = library_.show_nodes(false) == kSuccess;
  }
  if (node_records_.is_silent() && !without_nodes_) {
    without_nodes_ = true;
    missing("no nodes of graphs: CUPTI shows none of graphs that were made before they were on");
  }
  if (wholes_.is_silent() && has_graphs_) {
    without_wholes_ = true;
    set_records(false, false);
    has_graphs_ = library_.show_nodes(true) != kSuccess;
    missing("graphs are not timed as a whole: CUPTI shows none; their nodes are, in windows");
  }
}

void Collector::begin_window(Window window, int64_t now_ns) noexcept {
  choose_graphs();
  bool samples = window == Window::kOn && is_sampling_;
  bool on = window == Window::kOn && !samples;
  // Where they are asked for, from the start: CUPTI wants to know before a graph is instantiated.
  bool nodes = on && !without_nodes_ &&
               (tier_ == kTierNodes || tier_ == kTierAll ||
                (saw_graph_.load(std::memory_order_relaxed) && ++on_windows_ % kNodesOneIn == 0));
  bool launches = window != Window::kQuiet;
  bool launched = launches_on_;
  bool toggles = !library_.facts().cannot_toggle;
  if (launches != launches_on_) {
    launches_.enable(&library_, launches);
    launches_on_ = launches;
  }
  // Where switching off may hang, records stay as they were first.
  bool changes = on != records_on_ || nodes != nodes_on_;
  if (changes && (toggles || on)) set_records(on, nodes && toggles);
  if (changes || launches != launched || window_ == Window::kNone) mark_window();
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
  window_start_ns_ = clock_ns(CLOCK_MONOTONIC);
  window_start_ticks_ = ticks_of(tick_kind_);
  window_end_ns_ = now_ns + window_ns(window);
  launches_before_ = launches_.launches();
  graphs_before_ = launches_.graphs();
  cost_before_ = launches_.cost_ticks();
  calls_before_ = launches_.calls();
  call_ticks_before_ = launches_.call_ticks();
  overhead_before_ = decoder_.counts().overhead_ns;
  exhausted_before_ = pool_.exhausted();
}

void Collector::mark_window() noexcept {
  int64_t mark = !launches_on_ ? kMarkNothing
                 : nodes_on_   ? kMarkNodes
                 : records_on_ ? kMarkRecords
                               : kMarkLaunches;
  api_->mark("gpu/window", 10, mark);
}

// The typical one of the last steps.
double Collector::last_steps_ns(double ticks_per_ns) const noexcept {
  const StepClock& steps = *api_->steps;
  uint64_t count = steps.count.load(std::memory_order_acquire);
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

WindowFacts Collector::facts(int64_t now_ns) noexcept {
  WindowFacts facts = {};
  facts.kind = window_ == Window::kOn      ? WindowKind::kOn
               : window_ == Window::kPlain ? WindowKind::kPlain
                                           : WindowKind::kQuiet;
  facts.duration_ns = now_ns - window_start_ns_;
  double ticks_per_ns = clock_.ticks_per_ns();
  auto cost = static_cast<double>(launches_.cost_ticks() - cost_before_);
  facts.launches = launches_.launches() - launches_before_;
  facts.calls = launches_.calls() - calls_before_;
  auto call_ticks = static_cast<double>(launches_.call_ticks() - call_ticks_before_);
  if (facts.calls != 0) {
    facts.call_ns = call_ticks / ticks_per_ns / static_cast<double>(facts.calls);
  }
  facts.launch_cost_ns = static_cast<int64_t>(cost / ticks_per_ns);
  facts.cupti_cost_ns = static_cast<int64_t>(decoder_.counts().overhead_ns - overhead_before_);
  facts.switch_ns = switch_ns();
  facts.overrun = pool_.exhausted() != exhausted_before_;
  facts.step_ns = last_steps_ns(ticks_per_ns);
  const StepClock& steps = *api_->steps;
  uint64_t count = steps.count.load(std::memory_order_acquire);
  uint32_t edges = 0;
  uint64_t from = std::max(steps_before_, count > kMaxSteps ? count - kMaxSteps - 1 : 0);
  for (uint64_t i = from; i < count; i++) {
    uint64_t ticks = steps.ticks[i % StepClock::kKept].load(std::memory_order_relaxed);
    auto edge_ns = static_cast<double>(static_cast<int64_t>(ticks - window_start_ticks_));
    edge_ns /= ticks_per_ns;
    // A step counts if it both begins and ends in this window.
    if (edge_ns < (edges > 0 ? edges_ns_[edges - 1] : 0) || edges > kMaxSteps) continue;
    edges_ns_[edges++] = edge_ns;
  }
  // The last one is the beginning of the next window's first.
  steps_before_ = count > 0 ? count - 1 : 0;
  facts.steps = edges > 0 ? edges - 1 : 0;
  facts.edges_ns = edges_ns_;
  return facts;
}

void Collector::end_window(int64_t now_ns) noexcept {
  if (window_ == Window::kNone) return;
  if (window_ == Window::kOn && is_sampling_) method_->sampler->stop();
  governor().observe(facts(now_ns));
  watch_graphs(now_ns);
  if (window_ == Window::kOn) library_.flush(0);
  if (window_ == Window::kOn || tier_ == kTierAll) return;
  const Overhead& overhead = governor().overhead();
  if (overhead.pairs >= 3) {
    count(is_sampling_ ? method_->ratio : "gpu/overhead_ratio", overhead.ratio);
    count(is_sampling_ ? method_->low : "gpu/overhead_low", overhead.low);
    count(is_sampling_ ? method_->high : "gpu/overhead_high", overhead.high);
  }
  count("gpu/launch_ratio", governor().launch_ratio());
  count("gpu/spent_ratio", governor().spent_ratio());
}

// What is collected from now on, for clients that share it.
void Collector::tell_plan() noexcept {
  const Plan& plan = governor_.plan();
  double records = 0, launches = 0, samples = 0;
  if (holds_.load(std::memory_order_relaxed) && window_ != Window::kNone) {
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
