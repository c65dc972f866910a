// native/cuda/collector.cpp
#include "cuda/collector.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <new>

#include "cuda/neighbours.h"
#include "cuda/tiers.h"
#include "cuda/waiting.h"
#include "cuda/window_mark.h"

namespace pilotlight::cupti {
namespace {

constexpr int64_t kPatientPeriods = 10;  // for records of graphs
constexpr int64_t kDecodeWaitNs = kSecondNs / 5;

constexpr char kDoesNotFit[] =
    " (this libcupti does not work with this driver; `pilotlight doctor` says which one does)";

constexpr uint32_t kResourceEvents[] = {kModuleLoaded,     kModuleUnloadStarting,
                                        kGraphNodeCreated, kGraphNodeCloned,
                                        kContextCreated,   kContextDestroyStarting};

}  // namespace

Collector& Collector::get() noexcept {
  alignas(Collector) static char storage[sizeof(Collector)];
  static Collector* collector = new (storage) Collector;
  return *collector;
}

Collector::Collector() noexcept
    : launches_(&table_),
      decoder_(&library_, &clock_, &names_, &table_, &nodes_),
      governor_(settings_by_environment()),
      wholes_(kPatientPeriods * settings_by_environment().period_ns),
      node_records_(kPatientPeriods * settings_by_environment().period_ns),
      methods_{{kTierPc, &pc_, Governor(settings_by_environment()), "PC sampling", "gpu/pc_duty",
                "gpu/pc_overhead_ratio", "gpu/pc_overhead_low", "gpu/pc_overhead_high"},
               {kTierPm, &pm_, Governor(settings_by_environment()), "PM sampling", "gpu/pm_duty",
                "gpu/pm_overhead_ratio", "gpu/pm_overhead_low", "gpu/pm_overhead_high"},
               {kTierRange, &range_, Governor(settings_by_environment()), "range profiler",
                "gpu/range_duty", "gpu/range_overhead_ratio", "gpu/range_overhead_low",
                "gpu/range_overhead_high"}},
      watch_(&launches_, &decoder_, &pool_, &clock_) {
  sem_init(&wake_, 0, 0);
  sem_init(&decode_, 0, 0);
  sem_init(&finished_, 0, 0);
}

void Collector::missing(const char* reason) noexcept {
  // Once for each reason in a row: a retry every two seconds is no news.
  if (strncmp(missing_, reason, sizeof(missing_) - 1) == 0) return;
  snprintf(missing_, sizeof(missing_), "%s", reason);
  char text[256];
  int bytes = snprintf(text, sizeof(text), "gpu/missing: %s", missing_);
  api_->mark(text, static_cast<size_t>(bytes), 0);
}

void Collector::count(const char* name, double value) noexcept {
  api_->counter(name, strlen(name), value);
}

uint32_t Collector::wanted_tier() const noexcept {
  static const uint32_t own = tier_by_name(getenv("PILOTLIGHT_GPU"));
  uint32_t asked = api_->tier->load(std::memory_order_relaxed);
  if (own == kTierOff || asked == kTierOff) return kTierOff;
  return width_of(asked) > width_of(own) || own == kTierDefault ? asked : own;
}

void Collector::start(const ProviderApi* api) noexcept {
  if (api_ != nullptr) return;
  api_ = api;
  if (wanted_tier() == kTierOff) return;
  for (const char* wish : not_understood()) {
    if (wish != nullptr) missing(wish);
  }
  RingWriter* ring = api->ring();
  tick_kind_ = ring != nullptr ? ring->clock() : trusted_clock();
  random_ = static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC)) | 1;
  if (!pool_.open()) return missing("no memory for CUPTI's buffers");
  prepare_exit();
  watch_neighbours();
  pthread_mutex_lock(&lock_);
  tier_ = wanted_tier();
  if (!others_.load(std::memory_order_relaxed) && take()) {
    // On from the first launch: what CUPTI prepares when records are first asked for, it prepares
    // now and not in the middle of the work.
    bool on = has_clock_ && tier_ != kTierLaunches;
    begin_window(on ? WindowKind::kOn : WindowKind::kPlain, clock_ns(CLOCK_MONOTONIC));
  }
  pthread_mutex_unlock(&lock_);
  pthread_atfork(nullptr, nullptr, after_fork_in_child);

  has_threads_ = start_thread(run) && start_thread(run_decoder);
  if (!has_threads_) {
    pthread_mutex_lock(&lock_);
    release(false);
    pthread_mutex_unlock(&lock_);
    missing("the threads that read CUPTI's buffers cannot be started");
  }
}

void Collector::after_fork_in_child() noexcept {
  // CUDA does not work in a forked child, and our thread is not in it.
  Collector& self = get();
  self.forked_.store(true, std::memory_order_relaxed);
  self.holds_.store(false, std::memory_order_relaxed);
}

// Only where the user wants it: it needs a permission, takes 128 MB of the device, and cannot be
// turned off any more.
void Collector::ask_for_hardware_events() noexcept {
  const char* wish = getenv("PILOTLIGHT_GPU_HES");
  if (asked_hardware_ || wish == nullptr || strcmp(wish, "1") != 0) return;
  asked_hardware_ = true;
  if (!library_.facts().has_hardware_events) {
    return missing("no hardware events: libcupti 13.4 update 1 or later is needed");
  }
  Result result = library_.enable_hardware_events();
  if (result == kSuccess) {
    api_->mark("gpu/hardware_events", 19, 1);
    return;
  }
  char text[128];
  snprintf(text, sizeof(text), "no hardware events: CUPTI refuses with %d%s", result,
           words_of(result));
  missing(text);
}

// In V1 this is of the process, and is given back: another tool's buffers are not zeroed.
void Collector::set_buffers_ours(bool ours) noexcept {
  uint8_t zeroed = ours ? 1 : 0;
  library_.set_attribute(kZeroedOutBuffer, sizeof(zeroed), &zeroed);
  // Threads that launch at once then do not wait for each other.
  uint8_t per_thread = ours || library_.facts().is_per_thread ? 1 : 0;
  if (library_.facts().has_per_thread) {
    library_.set_attribute(kPerThreadBuffer, sizeof(per_thread), &per_thread);
  }
}

// Again every second until it works: we are called while CUDA initialises itself, and what of CUPTI
// answers already then is not written anywhere.
const char* Collector::prepare_records() noexcept {
  if (!has_buffers_) {
    has_buffers_ = library_.register_buffers(request, complete, request2, complete2) == kSuccess;
  }
  if (!has_buffers_) return "no device records: cuptiActivityRegisterCallbacks failed";
  if (!has_clock_) has_clock_ = clock_.open(&library_, tick_kind_);
  return has_clock_ ? nullptr : "no device records: CUPTI tells no time";
}

bool Collector::take() noexcept {
  char text[192];
  const char* why = library_.open();
  if (why != nullptr) {
    missing(why);
    return false;
  }
  if (library_.copies() > 1) missing("libcupti is loaded more than once; the first one is used");
  Result result = library_.subscribe(callback, this);
  while ((result == kUnknown || result == kNotInitialized) && library_.open_next()) {
    result = library_.subscribe(callback, this);
  }
  if (result == kMultipleSubscribers) {
    snprintf(text, sizeof(text), "CUPTI is in use by another tool%s%s",
             library_.other_subscriber()[0] != 0 ? ": " : "", library_.other_subscriber());
    missing(text);
    return false;
  }
  if (result != kSuccess) {
    bool fits = result != kUnknown && result != kNotInitialized;
    snprintf(text, sizeof(text), "cuptiSubscribe failed with %d%s", result,
             fits ? words_of(result) : kDoesNotFit);
    missing(text);
    return false;
  }
  ask_for_hardware_events();
  // Buffers of theirs that are still out would come back to us.
  if (had_others_.exchange(false)) library_.flush(kFlushForced);
  set_buffers_ours(true);
  has_buffers_ = has_clock_ = false;
  prepare_records();
  launches_.open(api_, tick_kind_);
  decoder_.open(api_);
  for (uint32_t event : kResourceEvents) library_.enable_callback(true, cupti::kResource, event);
  // Before any graph is instantiated, or it would not be timed as a whole.
  has_graphs_ = sharers_.load(std::memory_order_relaxed) == 0 && !without_wholes_ &&
                library_.show_nodes(false) == kSuccess;
  wholes_.restart();
  node_records_.restart();
  nodes_on_ = false;
  launches_on_ = launches_.enable(&library_, true) == kSuccess;
  if (!launches_on_) missing("no launches: cuptiEnableCallback failed");
  holds_.store(true, std::memory_order_release);
  api_->mark("gpu/taken", 9, library_.facts().version);
  return true;
}

void Collector::release(bool teardown) noexcept {
  if (!holds_.load(std::memory_order_relaxed)) return;
  end_window(clock_ns(CLOCK_MONOTONIC));
  window_ = WindowKind::kNone;
  api_->mark("gpu/window", 10, kMarkNothing);
  set_sampling(kTierOff);
  set_records(false, false);
  // Whoever comes next gives CUPTI a clock of its own, and turns it off itself in the end.
  if (library_.facts().cannot_toggle && !teardown) library_.disable(kConcurrentKernel);
  if (has_graphs_) library_.disable(kGraphTrace);
  // All of them: whoever comes next would get those that are still out.
  library_.flush(kFlushForced);
  if (library_.api() == Api::kV1) set_buffers_ours(false);
  if (teardown) {
    // The safe place for cuptiFinalize is the end of a CUDA call: see callback().
    finalize_.store(true, std::memory_order_release);
    return;
  }
  let_go();
}

void Collector::let_go() noexcept {
  launches_.enable(&library_, false);
  launches_on_ = false;
  holds_.store(false, std::memory_order_release);
  wait_for_decoder();
  library_.unsubscribe();
}

// In V2 records are read for a subscriber: not after it has left.
void Collector::wait_for_decoder() noexcept {
  timespec nap = {0, 500000};
  for (int64_t waited = 0; waited < kDecodeWaitNs; waited += nap.tv_nsec) {
    if (library_.api() != Api::kV2 || !pool_.has_come_back()) return;
    nanosleep(&nap, nullptr);
  }
}

void Collector::yield(bool to_others) noexcept {
  if (api_ == nullptr || forked_.load(std::memory_order_relaxed)) return;
  if (others_.exchange(to_others) == to_others) return;
  api_->mark("gpu/yielded", 11, to_others ? 1 : 0);
  if (to_others && tool_in_process() != nullptr) {
    char text[96];
    snprintf(text, sizeof(text), "%s is in this process and has CUPTI", tool_in_process());
    missing(text);
  }
  if (to_others) {
    had_others_.store(true);
    // On a thread of the other tool's: if ours is inside a CUPTI that does not answer, it goes on.
    if (lock_within(&lock_, kYieldWaitNs)) {
      release(false);
      pthread_mutex_unlock(&lock_);
    } else {
      missing("another tool wanted CUPTI and could not wait for it");
    }
  } else {
    retry_ns_.store(clock_ns(CLOCK_MONOTONIC) + kRetryNs, std::memory_order_relaxed);
  }
  sem_post(&wake_);
}

void Collector::share(bool with_another) noexcept {
  if (api_ == nullptr || forked_.load(std::memory_order_relaxed)) return;
  sharers_.fetch_add(with_another ? 1 : -1);
  if (!with_another) return;
  // As in yield(): the other tool goes on if ours does not.
  if (!lock_within(&lock_, kYieldWaitNs)) return;
  if (holds_.load(std::memory_order_relaxed) && has_graphs_) {
    bool on = records_on_;
    set_records(false, false);
    has_graphs_ = library_.show_nodes(true) != kSuccess;
    set_records(on, on);
    mark_window();
  }
  pthread_mutex_unlock(&lock_);
}

}  // namespace pilotlight::cupti
