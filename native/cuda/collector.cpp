// native/cuda/collector.cpp
#include "cuda/collector.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "cuda/neighbours.h"

namespace pilotlight::cupti {
namespace {

constexpr int64_t kSecondNs = 1000000000;
// How long the decoder waits for the agent to make room before it believes that nobody reads.
constexpr int64_t kPatienceNs = 2 * kSecondNs;
constexpr int64_t kExitWaitNs = 400000000;
constexpr int64_t kYieldWaitNs = kSecondNs;
constexpr int64_t kRetryNs = 2 * kSecondNs;
constexpr uint32_t kNodesOneIn = 8;  // on windows, where there are graphs
constexpr uint32_t kMaxSteps = 512;  // looked at in a window

constexpr Kind kRecords[] = {kConcurrentKernel, kMemcpy,  kMemcpyPeer, kMemset,
                             kSynchronization,  kMemory2, kOverhead};
constexpr uint32_t kResourceEvents[] = {kModuleLoaded, kModuleUnloadStarting, kGraphNodeCreated,
                                        kGraphNodeCloned, kContextDestroyStarting};

// By value of the mark "gpu/window"; docs/gpu.md.
enum WindowMark : int64_t {
  kMarkEnded = -2,

  kMarkNothing = -1,
  kMarkLaunches = 0,
  kMarkRecords = 1,
  kMarkNodes = 2
};

timespec deadline(clockid_t clock, int64_t after_ns) noexcept {
  int64_t then = clock_ns(clock) + after_ns;
  return {then / kSecondNs, then % kSecondNs};
}

// True: it was posted. By the clock that nobody sets, where the C library can: if wall-clock time
// is set back meanwhile, the wait is not longer for it.
bool wait_for(sem_t* semaphore, int64_t longest_ns) noexcept {
#if __GLIBC_PREREQ(2, 30)
  timespec until = deadline(CLOCK_MONOTONIC, longest_ns);
  auto wait = [&] { return sem_clockwait(semaphore, CLOCK_MONOTONIC, &until); };
#else
  timespec until = deadline(CLOCK_REALTIME, longest_ns);
  auto wait = [&] { return sem_timedwait(semaphore, &until); };
#endif
  while (wait() != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

uint32_t tier_by_name(const char* name) noexcept {
  if (name == nullptr) return kTierDefault;
  if (strcmp(name, "off") == 0 || strcmp(name, "0") == 0) return kTierOff;
  if (strcmp(name, "launches") == 0) return kTierLaunches;
  if (strcmp(name, "nodes") == 0) return kTierNodes;
  if (strcmp(name, "all") == 0) return kTierAll;
  return kTierDefault;
}

// What the number means, where it says more than that something failed.
const char* words_of(int result) noexcept {
  switch (result) {
    case kInsufficientPrivileges:
      return " (no permission)";
    case 33:
    case 40:
      return " (not on this vGPU)";
    case 41:
      return " (not under confidential computing)";
    case 42:
      return " (not on a CMP card)";
    case 43:
      return " (not on this MIG device)";
    case 45:
      return " (not under WSL)";
    case kNotSupported:
      return " (not on this device, or too late)";
    case 47:
      return " (not under MPS)";
    default:
      return "";
  }
}

// From narrow to wide: that a client asks for less takes nothing from the others.
uint32_t width_of(uint32_t tier) noexcept {
  constexpr uint32_t kWidths[] = {0, 1, 2, 3, 0, 4, 5};
  return tier < sizeof(kWidths) / sizeof(kWidths[0]) ? kWidths[tier] : 0;
}

GovernorSettings settings_by_environment() noexcept {
  GovernorSettings settings;
  const char* ceiling = getenv("PILOTLIGHT_GPU_CEILING");
  double ratio = ceiling != nullptr ? atof(ceiling) : 0;
  if (ratio > 0 && ratio <= 1) settings.ceiling_ratio = ratio;
  const char* period = getenv("PILOTLIGHT_GPU_PERIOD");
  double seconds = period != nullptr ? atof(period) : 0;
  if (seconds >= 0.01 && seconds <= 600) {
    settings.period_ns = static_cast<int64_t>(seconds * 1e9);
  }
  return settings;
}

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
      pc_governor_(settings_by_environment()) {
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
  RingWriter* ring = api->ring();
  tick_kind_ = ring != nullptr ? ring->clock() : trusted_clock();
  random_ = static_cast<uint64_t>(clock_ns(CLOCK_MONOTONIC)) | 1;
  if (!pool_.open()) return missing("no memory for CUPTI's buffers");
  watch_neighbours();
  pthread_mutex_lock(&lock_);
  tier_ = wanted_tier();
  if (!others_.load(std::memory_order_relaxed) && take()) {
    // On from the first launch: what CUPTI prepares when records are first asked for, it prepares
    // now and not in the middle of the work.
    bool on = has_clock_ && tier_ != kTierLaunches;
    begin_window(on ? Window::kOn : Window::kPlain, clock_ns(CLOCK_MONOTONIC));
  }
  pthread_mutex_unlock(&lock_);
  pthread_atfork(nullptr, nullptr, after_fork_in_child);

  if (!start_thread(run) || !start_thread(run_decoder)) {
    pthread_mutex_lock(&lock_);
    release(false);
    pthread_mutex_unlock(&lock_);
    missing("the threads that read CUPTI's buffers cannot be started");
  }
}

bool Collector::start_thread(void* (*body)(void*) noexcept) noexcept {
  // Signals are the job's: none is ever delivered to our threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  pthread_t thread;
  int error = pthread_create(&thread, &attributes, body, this);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error == 0;
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

bool Collector::take() noexcept {
  char text[160];
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
    snprintf(text, sizeof(text), "cuptiSubscribe failed with %d%s", result, words_of(result));
    missing(text);
    return false;
  }
  ask_for_hardware_events();
  uint8_t zeroed = 1;
  library_.set_attribute(kZeroedOutBuffer, sizeof(zeroed), &zeroed);
  result = library_.register_buffers(request, complete, request2, complete2);
  if (result != kSuccess) {
    snprintf(text, sizeof(text), "no device records: cuptiActivityRegisterCallbacks failed with %d",
             result);
    missing(text);
  }
  launches_.open(api_, tick_kind_);
  decoder_.open(api_);
  for (uint32_t event : kResourceEvents) library_.enable_callback(true, cupti::kResource, event);
  // Before any graph is instantiated, or it would not be timed as a whole.
  has_graphs_ = library_.enable(kGraphTrace) == kSuccess;
  nodes_on_ = false;
  has_clock_ = clock_.open(&library_, tick_kind_);
  if (!has_clock_) missing("no device records: CUPTI tells no time");
  launches_on_ = launches_.enable(&library_, true) == kSuccess;
  if (!launches_on_) missing("no launches: cuptiEnableCallback failed");
  holds_.store(true, std::memory_order_release);
  api_->mark("gpu/taken", 9, library_.facts().version);
  return true;
}

void Collector::release(bool teardown) noexcept {
  if (!holds_.load(std::memory_order_relaxed)) return;
  end_window(clock_ns(CLOCK_MONOTONIC));
  window_ = Window::kNone;
  api_->mark("gpu/window", 10, kMarkNothing);
  set_sampling(false);
  set_records(false, false);
  if (has_graphs_) library_.disable(kGraphTrace);
  // All of them: whoever comes next would get those that are still out.
  library_.flush(kFlushForced);
  if (teardown) {
    // The safe place for cuptiFinalize is the end of a CUDA call: see callback().
    finalize_.store(true, std::memory_order_release);
    return;
  }
  launches_.enable(&library_, false);
  launches_on_ = false;
  holds_.store(false, std::memory_order_release);
  library_.unsubscribe();
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
    // On a thread of the other tool's: if ours is inside a CUPTI that does not answer, it goes on.
    timespec until = deadline(CLOCK_REALTIME, kYieldWaitNs);
    if (pthread_mutex_timedlock(&lock_, &until) == 0) {
      release(false);
      pthread_mutex_unlock(&lock_);
    } else {
      missing("another tool wanted CUPTI and could not wait for it");
    }
  }
  sem_post(&wake_);
}

void Collector::set_records(bool on, bool nodes) noexcept {
  // A whole graph or its nodes: never both. Records of nodes come by the kind of their work.
  bool want_nodes = on && nodes && has_graphs_;
  if (want_nodes != nodes_on_) {
    if (want_nodes) {
      library_.disable(kGraphTrace);
    } else {
      library_.enable(kGraphTrace);
    }
    nodes_on_ = want_nodes;
  }
  if (on == records_on_) return;
  char text[128];
  for (Kind kind : kRecords) {
    Result result = on ? library_.enable(kind) : library_.disable(kind);
    if (on && result != kSuccess && kind == kConcurrentKernel) {
      snprintf(text, sizeof(text), "no kernel records: cuptiActivityEnable failed with %d", result);
      missing(text);
    }
  }
  records_on_ = on;
}

// Before the first cycle with PC sampling, and after the last one.
void Collector::set_sampling(bool wanted) noexcept {
  if (wanted == notes_contexts_.load(std::memory_order_relaxed)) return;
  bool alone = !library_.facts().samples_beside;
  if (wanted) {
    if (alone) set_records(false, false);
    if (alone && has_graphs_) library_.disable(kGraphTrace);
    sampler_.open(&library_, api_);
  } else {
    sampler_.close();
    if (alone && has_graphs_) library_.enable(kGraphTrace);
    is_sampling_ = false;
  }
  notes_contexts_.store(wanted, std::memory_order_release);
}

// Records and PC sampling take turns, so that whoever asked for records has them meanwhile.
bool Collector::samples_next() const noexcept {
  if (tier_ != kTierPc || sampler_.refused() != kSuccess) return false;
  return !library_.facts().samples_beside || !is_sampling_;
}

void* Collector::run(void* collector) noexcept {
  pthread_setname_np(pthread_self(), "pilotlight-gpu");
  static_cast<Collector*>(collector)->loop();
  return nullptr;
}

void* Collector::run_decoder(void* collector) noexcept {
  pthread_setname_np(pthread_self(), "pilotlight-cupti");
  auto* self = static_cast<Collector*>(collector);
  while (true) {
    while (sem_wait(&self->decode_) != 0) {
    }
    self->decoding_.store(true);
    self->decode_all();
    self->decoding_.store(false);
  }
  return nullptr;
}

void Collector::loop() noexcept {
  next_second_ns_ = clock_ns(CLOCK_MONOTONIC) + kSecondNs;
  while (true) {
    int64_t now = clock_ns(CLOCK_MONOTONIC);
    turn(now);
    if (finishing_.load(std::memory_order_acquire)) return flush_for_exit();
    now = clock_ns(CLOCK_MONOTONIC);
    if (now >= next_second_ns_) second(now);
    int64_t wake = next_second_ns_;
    if (window_ != Window::kNone) wake = std::min(wake, window_end_ns_);
    wait_for(&wake_, std::max<int64_t>(wake - now, 0));
  }
}

// Ends and begins windows when it is time, takes CUPTI again when it is free.
void Collector::turn(int64_t now_ns) noexcept {
  pthread_mutex_lock(&lock_);
  uint32_t tier = wanted_tier();
  bool paused = !api_->collecting->load(std::memory_order_relaxed);
  bool tier_changed = tier != tier_;
  tier_ = tier;
  if (tier == kTierOff) {
    if (holds_.load(std::memory_order_relaxed) && !finalize_.load(std::memory_order_relaxed)) {
      release(true);
    }
  } else if (!holds_.load(std::memory_order_relaxed)) {
    if (!others_.load(std::memory_order_relaxed) && now_ns >= retry_ns_) {
      retry_ns_ = now_ns + kRetryNs;
      if (take()) begin_window(Window::kPlain, now_ns);
    }
  } else if (paused) {
    if (window_ != Window::kNone) {
      end_window(now_ns);
      window_ = Window::kNone;
      set_sampling(false);
      set_records(false, false);
      if (launches_on_) launches_.enable(&library_, false);
      launches_on_ = false;
      api_->mark("gpu/window", 10, kMarkNothing);
      library_.flush(0);
    }
  } else if (window_ == Window::kNone || now_ns >= window_end_ns_ || tier_changed) {
    finalize_.store(false, std::memory_order_relaxed);
    end_window(now_ns);
    set_sampling(tier_ == kTierPc);
    begin_window(next_window(), now_ns);
  }
  tell_plan();
  pthread_mutex_unlock(&lock_);
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

void Collector::begin_window(Window window, int64_t now_ns) noexcept {
  bool samples = window == Window::kOn && is_sampling_;
  bool on = window == Window::kOn && !samples;
  // Where they are asked for, from the start: CUPTI wants to know before a graph is instantiated.
  bool nodes =
      on && (tier_ == kTierNodes || tier_ == kTierAll ||
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
  if (changes || launches != launched || window_ == Window::kNone) {
    int64_t mark = !launches     ? kMarkNothing
                   : nodes_on_   ? kMarkNodes
                   : records_on_ ? kMarkRecords
                                 : kMarkLaunches;
    api_->mark("gpu/window", 10, mark);
  }
  if (samples && sampler_.start() != kSuccess) {
    char text[128];
    snprintf(text, sizeof(text), "no PC sampling: CUPTI refuses with %d%s", sampler_.refused(),
             words_of(sampler_.refused()));
    missing(text);
  }
  window_ = window;
  window_start_ns_ = clock_ns(CLOCK_MONOTONIC);
  window_start_ticks_ = ticks_of(tick_kind_);
  window_end_ns_ = now_ns + window_ns(window);
  launches_before_ = launches_.launches();
  cost_before_ = launches_.cost_ticks();
  calls_before_ = launches_.calls();
  call_ticks_before_ = launches_.call_ticks();
  overhead_before_ = counts_[kShownOverheadNs].load(std::memory_order_relaxed);
  exhausted_before_ = pool_.exhausted();
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
  facts.cupti_cost_ns = static_cast<int64_t>(
      counts_[kShownOverheadNs].load(std::memory_order_relaxed) - overhead_before_);
  facts.overrun = pool_.exhausted() != exhausted_before_;
  const StepClock& steps = *api_->steps;
  uint64_t count = steps.count.load(std::memory_order_acquire);
  double lengths[kMaxSteps];
  uint64_t from = std::max(steps_before_, count > kMaxSteps ? count - kMaxSteps : 0);
  uint64_t previous = 0;
  for (uint64_t i = from; i < count; i++) {
    uint64_t ticks = steps.ticks[i % StepClock::kKept].load(std::memory_order_relaxed);
    // A step counts if it both begins and ends in this window.
    if (previous >= window_start_ticks_ && ticks > previous) {
      lengths[facts.steps++] = static_cast<double>(ticks - previous) / ticks_per_ns;
    }
    previous = ticks;
  }
  // The last one is the beginning of the next window's first.
  steps_before_ = count > 0 ? count - 1 : 0;
  facts.step_ns = typical(lengths, facts.steps);
  return facts;
}

void Collector::end_window(int64_t now_ns) noexcept {
  if (window_ == Window::kNone) return;
  if (window_ == Window::kOn && is_sampling_) sampler_.stop();
  governor().observe(facts(now_ns));
  if (window_ == Window::kOn) library_.flush(0);
  if (window_ == Window::kOn || tier_ == kTierAll) return;
  const Overhead& overhead = governor().overhead();
  if (overhead.pairs >= 3) {
    count(is_sampling_ ? "gpu/pc_overhead_ratio" : "gpu/overhead_ratio", overhead.ratio);
    count(is_sampling_ ? "gpu/pc_overhead_low" : "gpu/overhead_low", overhead.low);
    count(is_sampling_ ? "gpu/pc_overhead_high" : "gpu/overhead_high", overhead.high);
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
    records = windows ? plan.duty : has_clock_ && tier_ == kTierAll ? 1 : 0;
    launches = windows ? static_cast<double>(plan.on_ns + plan.plain_ns) / cycle : 1;
    if (records_on_ && library_.facts().cannot_toggle) records = 1;
    if (tier_ == kTierPc && sampler_.refused() == kSuccess) {
      double turns = library_.facts().samples_beside ? 0.5 : 1;
      samples = pc_governor_.plan().duty * turns;
      records *= 1 - turns;
    }
  }
  constexpr const char* kNames[] = {"gpu/tier", "gpu/duty", "gpu/launches_duty", "gpu/pc_duty"};
  const double values[] = {static_cast<double>(tier_), records, launches, samples};
  for (uint32_t i = 0; i < 4; i++) {
    if (values[i] != told_[i]) count(kNames[i], values[i]);
    told_[i] = values[i];
  }
}

void Collector::second(int64_t now_ns) noexcept {
  next_second_ns_ = now_ns + kSecondNs;
  watch_neighbours();
  pthread_mutex_lock(&lock_);
  if (holds_.load(std::memory_order_relaxed)) {
    library_.flush(0);
    if (has_clock_) clock_.check();
  }
  PcCounts pc = sampler_.counts();
  Result pc_refused = sampler_.refused();
  pthread_mutex_unlock(&lock_);
  auto of = [this](Shown which) { return counts_[which].load(std::memory_order_relaxed); };
  struct {
    const char* name;
    uint64_t value;
  } const all[] = {{"gpu/records", of(kShownRecords)},
                   {"gpu/lost_by_cupti", of(kShownCuptiLost)},
                   {"gpu/lost_ring_full", of(kShownRingFull)},
                   {"gpu/zero_timestamps", of(kShownZeroTimes)},
                   {"gpu/out_of_order", of(kShownOutOfOrder)},
                   {"gpu/unknown_records", of(kShownUnknown)},
                   {"gpu/without_launch", of(kShownWithoutOrigin)},
                   {"gpu/names_shared", of(kShownNamesShared)},
                   {"gpu/nodes_lost", nodes_.lost()},
                   {"gpu/no_buffer_left", pool_.exhausted()},
                   {"gpu/clock_jumps", clock_.jumps()},
                   {"gpu/clock_uncertainty_ns", has_clock_ ? clock_.uncertainty_ns() : 0},
                   {"gpu/pc_samples", pc.samples},
                   {"gpu/pc_dropped", pc.dropped},
                   {"gpu/pc_other_samples", pc.other},
                   {"gpu/pc_lost", pc.lost},
                   {"gpu/pc_contexts_out", pc.contexts_out},
                   {"gpu/pc_refused", static_cast<uint64_t>(pc_refused)}};
  static_assert(sizeof(all) / sizeof(all[0]) <= sizeof(shown_) / sizeof(shown_[0]));
  uint32_t i = 0;
  for (const auto& one : all) {
    if (one.value != shown_[i]) count(one.name, static_cast<double>(one.value));
    shown_[i++] = one.value;
  }
}

void Collector::decode_all() noexcept {
  FullBuffer full;
  while (pool_.take(&full)) {
    RingWriter* ring = api_->ring();
    if (ring == nullptr) return;
    if (ring->has_room(sizeof(pilotlight::Activity))) nobody_reads_ = false;
    uint64_t lost = decoder_.counts().ring_full;
    decoder_.decode(full, ring, nobody_reads_ ? 0 : kPatienceNs);
    pool_.give_back(full);
    // The rest is lost and counted, without waiting for each.
    if (decoder_.counts().ring_full != lost) nobody_reads_ = true;
    publish_counts();
  }
}

void Collector::publish_counts() noexcept {
  const DecodeCounts& counts = decoder_.counts();
  uint64_t values[kShownCounts] = {};
  values[kShownRecords] = counts.records;
  values[kShownCuptiLost] = counts.cupti_lost;
  values[kShownRingFull] = counts.ring_full;
  values[kShownZeroTimes] = counts.zero_times;
  values[kShownOutOfOrder] = counts.out_of_order;
  values[kShownUnknown] = counts.unknown;
  values[kShownWithoutOrigin] = counts.without_origin;
  values[kShownNamesShared] = names_.shared();
  values[kShownOverheadNs] = counts.overhead_ns;
  for (uint32_t i = 0; i < kShownCounts; i++) {
    counts_[i].store(values[i], std::memory_order_relaxed);
  }
}

void Collector::flush_for_exit() noexcept {
  int64_t deadline_ns = clock_ns(CLOCK_MONOTONIC) + kExitWaitNs * 3 / 4;
  pthread_mutex_lock(&lock_);
  if (holds_.load(std::memory_order_relaxed)) {
    if (window_ != Window::kNone) api_->mark("gpu/window", 10, kMarkEnded);
    library_.flush(kFlushForced);
    sampler_.stop();
  }
  pthread_mutex_unlock(&lock_);
  int64_t hurry_ns = deadline_ns - kExitWaitNs / 3;
  for (int64_t now = 0; (pool_.full() != 0 || decoding_.load()) && now < deadline_ns;) {
    timespec pause = {0, 500000};
    nanosleep(&pause, nullptr);
    now = clock_ns(CLOCK_MONOTONIC);
    if (now > hurry_ns) decoder_.hurry();
  }
  second(clock_ns(CLOCK_MONOTONIC));
  sem_post(&finished_);
}

void Collector::finish() noexcept {
  if (api_ == nullptr || forked_.load(std::memory_order_relaxed) ||
      !holds_.load(std::memory_order_relaxed)) {
    return;
  }
  finishing_.store(true, std::memory_order_release);
  sem_post(&wake_);
  // Never longer than this: an exit must not hang on a device that does not answer.
  wait_for(&finished_, kExitWaitNs);
}

void Collector::context_ends(Context context) noexcept {
  if (!notes_contexts_.load(std::memory_order_acquire)) return;
  // On the application's thread, inside CUPTI: if ours is inside it too, the context goes as it is.
  timespec until = deadline(CLOCK_REALTIME, kYieldWaitNs);
  if (pthread_mutex_timedlock(&lock_, &until) != 0) return sampler_.abandon(context);
  sampler_.forget(context);
  pthread_mutex_unlock(&lock_);
}

void Collector::resource(uint32_t id, const ResourceData& data) noexcept {
  if (id == kContextDestroyStarting) return context_ends(data.context);
  if (id == kModuleLoaded || id == kModuleUnloadStarting) return names_.new_epoch();
  if (data.descriptor == nullptr) return;
  const auto& graph = *static_cast<const GraphData*>(data.descriptor);
  saw_graph_.store(true, std::memory_order_relaxed);
  uint64_t node = 0;
  if (library_.graph_node_id(graph.node, &node) != kSuccess) return;
  Origin origin = {0, 0};
  uint64_t original = 0;
  if (id == kGraphNodeCloned) {
    if (library_.graph_node_id(graph.original_node, &original) != kSuccess ||
        !nodes_.find(original, &origin)) {
      return;
    }
  } else {
    origin = {api_->stack(), api_->range()};
  }
  nodes_.put(node, origin);
}

void Collector::callback(void* user, uint32_t domain, uint32_t id, const void* data) noexcept {
  auto* self = static_cast<Collector*>(user);
  if (self->forked_.load(std::memory_order_relaxed) || data == nullptr) return;
  if (domain == cupti::kResource)
    return self->resource(id, *static_cast<const ResourceData*>(data));
  const auto& call = *static_cast<const CallbackData*>(data);
  self->launches_.callback(domain, id, call);
  if (__builtin_expect(self->notes_contexts_.load(std::memory_order_relaxed), 0)) {
    self->sampler_.note(call.context);
  }
  if (__builtin_expect(!self->finalize_.load(std::memory_order_relaxed), 1)) return;
  // Not while our thread is inside CUPTI: then the next call does it.
  if (call.site != kExit || pthread_mutex_trylock(&self->lock_) != 0) return;
  if (self->finalize_.exchange(false) && self->holds_.exchange(false)) {
    self->library_.unsubscribe();
    self->library_.finalize();
    self->launches_on_ = false;
    self->api_->mark("gpu/torn_down", 13, 1);
  }
  pthread_mutex_unlock(&self->lock_);
}

void Collector::request(uint8_t** buffer, size_t* bytes, size_t* most) noexcept {
  Collector& self = get();
  *most = 0;
  self.pool_.request(self.library_.facts().takes_no_null, buffer, bytes);
}

void Collector::complete(Context context, uint32_t stream, uint8_t* buffer, size_t,
                         size_t valid_bytes) noexcept {
  Collector& self = get();
  if (buffer == nullptr) return;
  self.pool_.complete(context, stream, buffer, valid_bytes);
  sem_post(&self.decode_);
}

void Collector::request2(uint8_t** buffer, size_t* bytes, size_t* most, void*) noexcept {
  request(buffer, bytes, most);
}

void Collector::complete2(uint8_t* buffer, size_t bytes, size_t valid_bytes, void*) noexcept {
  complete(nullptr, 0, buffer, bytes, valid_bytes);
}

}  // namespace pilotlight::cupti
