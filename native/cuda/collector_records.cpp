// native/cuda/collector_records.cpp: which records the collector has on: of single work, of graphs,
// of the hardware.
#include <stdio.h>

#include <algorithm>

#include "cuda/collector.h"
#include "cuda/tiers.h"
#include "cuda/waiting.h"

namespace pilotlight::cupti {
namespace {

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
  if (on && pool_.is_closed()) {
    // What came meanwhile, nobody wanted.
    size_t unwanted = 0;
    library_.dropped(nullptr, 0, &unwanted);
    decoder_.ignore_dropped(false);
    pool_.reopen();
  } else if (!on && library_.facts().cannot_toggle) {
    decoder_.add_dropped({});
    decoder_.ignore_dropped(true);
    pool_.close();
    // Those that CUPTI has, too: it would go on to fill them.
    library_.flush(kFlushForced);
  }
  for (Kind kind : kRecords) {
    if (!on && kind == kConcurrentKernel && library_.facts().cannot_toggle) continue;
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

void Collector::watch_graphs(int64_t now_ns) noexcept {
  // While a method excludes device records, those of graphs are off as well.
  if (!launches_on_ || (method_ != nullptr && is_alone())) return;
  uint64_t launched = watch_.graphs();
  if (nodes_on_) {
    node_records_.observe(launched, decoder_.counts().nodes, watch_.start_ns(), now_ns);
  } else if (has_graphs_) {
    wholes_.observe(launched, decoder_.counts().graphs, watch_.start_ns(), now_ns);
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

}  // namespace pilotlight::cupti
