// native/probe/probe.cpp
#include "probe/probe.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <new>

#include "probe/allowance.h"
#include "probe/last_thread.h"
#include "probe/own_files.h"

namespace pilotlight {
namespace {

constexpr int64_t kSecondNs = 1000000000;
// How late a request of the agent may be heard.
constexpr int64_t kListenNs = 50'000'000;
constexpr int64_t kMaxPeriodNs = kSecondNs;
// At most this often the interpreter is asked for the names of new threads.
constexpr int64_t kAskNs = kSecondNs / 10;
// A pass that lasted so long may have taken more than all of this second.
constexpr int64_t kLongPassNs = 1'000'000;
// Above what it may take the period grows, below kCalm of that it shrinks back by as much.
constexpr double kCalm = 0.8;

uint32_t current_tid() noexcept { return static_cast<uint32_t>(syscall(SYS_gettid)); }

}  // namespace

Probe* Probe::instance = nullptr;
std::atomic<bool> Probe::collecting_{false};
void (*Probe::before_retire)(RingWriter*) noexcept = nullptr;
__thread RingWriter* Probe::thread_ring = nullptr;
std::atomic<uintptr_t> Probe::last_thread{0};
RingWriter* Probe::last_ring = nullptr;

void Probe::create() noexcept {
  alignas(Probe) static char storage[sizeof(Probe)];
  if (instance == nullptr) instance = new (storage) Probe;
}

const char* Probe::start(const ProbeOptions& options) noexcept {
  if (started()) return nullptr;
  if (!prepared_) {
    if (pthread_key_create(&key_, retire) != 0) return "no thread-local key is left";
    if (pthread_atfork(nullptr, nullptr, after_fork_in_child) != 0) {
      return "the fork handler cannot be set";
    }
    prepared_ = true;
  }
  if (!segment_.create(options.segment_folder)) return why_no_segment(errno);
  segment_.set_identity(options.identity);
  link_.open(options.socket_path, &segment_);
  stopping_.store(false, std::memory_order_relaxed);
  on_new_threads_ = options.on_new_threads;
  nominal_period_ns_ = options.period_ns;
  period_ns_.store(options.period_ns, std::memory_order_relaxed);
  describe_python(&segment_.header()->python);
  run_.fetch_add(1, std::memory_order_relaxed);
  started_.store(true, std::memory_order_release);
  collecting_.store(true, std::memory_order_release);
  mark(ProcessMark::kStarted, {}, 0);
  // Here and not in the thread: a process that ends at once is still seen.
  connect();

  // Signals are the job's: none is ever delivered to our thread.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, 256 * 1024);
  pthread_t thread;
  int error = pthread_create(&thread, &attributes, run, this);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (error != 0) {
    turn_off("the probe's thread cannot be started");
    return "the probe's thread cannot be started";
  }
  end_with_last_thread();
  return nullptr;
}

void Probe::stop(std::string_view exception) noexcept {
  if (!started()) return;
  RingWriter* ring = this->ring();
  if (ring != nullptr) ring->use_reserve();
  mark(ProcessMark::kExit, exception, 0);
  stopping_.store(true, std::memory_order_release);
}

void Probe::turn_off(const char* reason) noexcept {
  if (!started()) return;
  mark(ProcessMark::kOff, reason, 0);
  collecting_.store(false, std::memory_order_relaxed);
  segment_.turn_off(Off::kAll, reason);
}

RingWriter* Probe::attach(std::string_view thread_name) noexcept {
  if (!started()) return nullptr;
  char name[16] = {};
  if (thread_name.empty()) {
    pthread_getname_np(pthread_self(), name, sizeof(name));
    thread_name = name;
  }
  RingWriter taken;
  char folded[ThreadNames::kFoldedBytes];
  thread_name = sampler_.names().bounded(thread_name, folded);
  if (!segment_.take_ring(&taken, current_tid(), thread_name)) {
    segment_.header()->drops_no_ring.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  // One writer a slot, so nothing is allocated: the slot's place in the table is the writer's.
  auto* table = reinterpret_cast<RingSlot*>(reinterpret_cast<char*>(segment_.header()) +
                                            segment_.header()->table_offset);
  RingWriter* ring = &rings_[taken.slot() - table];
  *ring = taken;
  thread_ring = ring;
  pthread_setspecific(key_, ring);
  return ring;
}

RingWriter* Probe::attach_last() noexcept {
  RingWriter* ring = thread_ring;
  if (ring == nullptr) return nullptr;
  // A thread that ends may forget itself meanwhile: it does not have the GIL.
  last_thread.store(0, std::memory_order_relaxed);
  last_ring = ring;
  last_thread.store(thread_pointer(), std::memory_order_relaxed);
  return ring;
}

// The next thread may well have the same pointer.
void Probe::forget_last() noexcept {
  uintptr_t own = thread_pointer();
  last_thread.compare_exchange_strong(own, 0, std::memory_order_relaxed);
}

void Probe::retire(void* ring) noexcept {
  if (thread_ring == nullptr) return;
  if (before_retire != nullptr) before_retire(static_cast<RingWriter*>(ring));
  forget_last();
  thread_ring = nullptr;
  get().segment_.retire_ring(static_cast<RingWriter*>(ring));
}

void Probe::after_fork_in_child() noexcept {
  Probe& probe = get();
  if (!probe.started()) return;
  // The rings are the parent's and not even mapped here. Only the forking thread lives on; a new
  // one may get the stack of any other.
  last_thread.store(0, std::memory_order_relaxed);
  thread_ring = nullptr;
  pthread_setspecific(probe.key_, nullptr);
  probe.collecting_.store(false, std::memory_order_relaxed);
  probe.started_.store(false, std::memory_order_relaxed);
  probe.own_stack_state_.store(0, std::memory_order_relaxed);
  probe.sampling_ = false;
  probe.sampler_.names().forget();
  probe.link_.forget();
  probe.window_.forget();
  probe.segment_.forget();
}

uint32_t Probe::string(std::string_view text) noexcept {
  return started() ? segment_.definitions().string(text) : 0;
}

uint32_t Probe::track(uint32_t name, TrackKind kind, uint16_t device, uint64_t stream) noexcept {
  return started() ? segment_.definitions().track(name, kind, device, stream) : 0;
}

uint32_t Probe::own_stack() noexcept {
  uint32_t state = own_stack_state_.load(std::memory_order_acquire);
  if (__builtin_expect(state == 2, 1)) return own_stack_.take();
  if (state != 0 || !started() || !own_stack_state_.compare_exchange_strong(state, 1)) return 0;
  bool opened = own_stack_.open(segment_.header()->python, &segment_.definitions());
  own_stack_state_.store(opened ? 2 : 3, std::memory_order_release);
  return opened ? own_stack_.take() : 0;
}

uint32_t Probe::own_range() noexcept {
  return thread_ring != nullptr ? thread_ring->innermost_range() : 0;
}

void Probe::name_thread(uint32_t tid, std::string_view name) noexcept {
  if (started()) sampler_.names().put(tid, name, &segment_.definitions());
}

void Probe::mark(ProcessMark mark, std::string_view name, int64_t value) noexcept {
  RingWriter* ring = this->ring();
  if (ring == nullptr) return;
  Process record = {};
  record.mark = static_cast<uint32_t>(mark);
  record.value = value;
  ring->write(RecordType::kProcess, name.empty() ? 0 : string(name), record);
}

void Probe::set_identity(std::string_view identity) noexcept {
  if (started()) segment_.set_identity(identity);
}

ProbeStatus Probe::status() const noexcept {
  return {started(), collecting(), agent_pid_.load(std::memory_order_relaxed),
          refused_.load(std::memory_order_relaxed), period_ns_.load(std::memory_order_relaxed)};
}

const char* Probe::off_reason() const noexcept {
  if (!started() || segment_.header()->off.load(std::memory_order_acquire) == 0) return nullptr;
  return segment_.header()->off_reason;
}

void* Probe::run(void* probe) noexcept {
  pthread_setname_np(pthread_self(), "pilotlight");
  static_cast<Probe*>(probe)->loop();
  return nullptr;
}

void Probe::loop() noexcept {
  // The table that the job sees keeps its descriptor of the line: only the job's threads could
  // close it.
  bool has_own_files = take_own_files(segment_.fd(), link_.fd());
  bool has_window = has_own_files && window_.open();
  if (segment_.take_ring(&sampler_ring_, current_tid(), "pilotlight")) {
    const PythonInfo& python = segment_.header()->python;
    sampling_ = sampler_.open(python, has_window ? &window_ : nullptr, &segment_.definitions(),
                              &sampler_ring_);
    if (!sampling_ && nominal_period_ns_ != 0) segment_.turn_off(Off::kSampling, sampler_.why());
  } else {
    segment_.turn_off(Off::kSampling, "no ring is left for the sampler");
  }
  int64_t now = clock_ns(CLOCK_MONOTONIC);
  cpu_ns_ = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  job_cpu_ns_ = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  written_bytes_ = segment_.written_bytes();
  reported_ = sampler_.counts();
  asked_named_ = 0;
  random_ = static_cast<uint32_t>(now) | 1;
  next_pass_ns_ = now + period_ns_.load(std::memory_order_relaxed);
  last_second_ns_ = now;
  next_second_ns_ = now + kSecondNs;
  while (!stopping_.load(std::memory_order_acquire)) {
    now = clock_ns(CLOCK_MONOTONIC);
    int64_t period = period_ns_.load(std::memory_order_relaxed);
    bool sampling = sampling_ && period != 0 && collecting();
    if (sampling && now >= next_pass_ns_) {
      sampler_.pass();
      ask_for_names(now);
      // Spread over half a period either way, so that work with a rhythm of its own is not always
      // met at the same beat.
      random_ ^= random_ << 13;
      random_ ^= random_ >> 17;
      random_ ^= random_ << 5;
      next_pass_ns_ = now + period / 2 + static_cast<int64_t>(random_ % uint64_t(period));
      if (clock_ns(CLOCK_MONOTONIC) - now > kLongPassNs) rest_after_long_pass();
    }
    if (now >= next_second_ns_) second(now);
    bool connected = connect();
    int64_t wake = next_second_ns_;
    if (sampling) wake = std::min(wake, next_pass_ns_);
    if (!connected) wake = std::min(wake, link_.retry_ns());
    int64_t wait = std::max<int64_t>(wake - clock_ns(CLOCK_MONOTONIC), 0);
    // To be woken by a timer alone costs a third less than by a timer or the line, and that is much
    // of what a pass costs: while it wakes often anyway, the line is looked at now and then.
    if (sampling && wait < kListenNs) {
      timespec rest = {0, static_cast<long>(wait)};
      clock_nanosleep(CLOCK_MONOTONIC, 0, &rest, nullptr);
      if (now - heard_ns_ < kListenNs) continue;
      wait = 0;
    }
    listen(wait);
    heard_ns_ = now;
  }
  // With the thread its files would go, and to the agent the line is the process. No signal ends
  // this.
  while (has_own_files) ::pause();
}

// Of hundreds of threads: the period grows only with the next second.
void Probe::rest_after_long_pass() noexcept {
  auto used = static_cast<double>(clock_ns(CLOCK_THREAD_CPUTIME_ID) - cpu_ns_);
  next_pass_ns_ =
      std::max(next_pass_ns_, last_second_ns_ + static_cast<int64_t>(used / kMostOfCore));
}

// Waits for requests of the agent and answers them.
void Probe::listen(int64_t wait_ns) noexcept {
  timespec timeout = {wait_ns / kSecondNs, wait_ns % kSecondNs};
  pollfd line = {link_.fd(), POLLIN, 0};
  if (ppoll(&line, 1, &timeout, nullptr) <= 0) return;
  Control control;
  while (link_.receive(&control, clock_ns(CLOCK_MONOTONIC))) handle(control);
}

void Probe::ask_for_names(int64_t now_ns) noexcept {
  uint32_t named = sampler_.counts().named;
  if (named == asked_named_ || now_ns - asked_ns_ < kAskNs || on_new_threads_ == nullptr) return;
  asked_named_ = named;
  asked_ns_ = now_ns;
  on_new_threads_();
}

bool Probe::connect() noexcept {
  bool connected = link_.connect(clock_ns(CLOCK_MONOTONIC));
  agent_pid_.store(connected ? link_.agent_pid() : 0, std::memory_order_relaxed);
  refused_.store(link_.refused(), std::memory_order_relaxed);
  return connected;
}

void Probe::handle(const Control& control) noexcept {
  switch (static_cast<ControlType>(control.type)) {
    case ControlType::kPeriod:
      nominal_period_ns_ = static_cast<int64_t>(std::min<uint64_t>(control.argument, kMaxPeriodNs));
      period_ns_.store(nominal_period_ns_, std::memory_order_relaxed);
      return;
    case ControlType::kPause:
      return pause();
    case ControlType::kResume:
      return resume();
    case ControlType::kTier:
      return tier_.store(control.value, std::memory_order_relaxed);
    default:
      return;
  }
}

void Probe::pause() noexcept {
  if (!collecting_.exchange(false)) return;
  Process record = {};
  record.mark = static_cast<uint32_t>(ProcessMark::kPaused);
  sampler_ring_.write(RecordType::kProcess, 0, record);
}

void Probe::resume() noexcept {
  uint32_t off = segment_.header()->off.load(std::memory_order_relaxed);
  if (off == static_cast<uint32_t>(Off::kAll)) return;
  if (collecting_.exchange(true)) return;
  sampler_.restart();
  Process record = {};
  record.mark = static_cast<uint32_t>(ProcessMark::kResumed);
  sampler_ring_.write(RecordType::kProcess, 0, record);
}

// Once a second: the clocks, what sampling cost, and whether it may go on at this rate.
void Probe::second(int64_t now_ns) noexcept {
  segment_.update_clock();
  own_stack_.tell_time(now_ns);
  int64_t cpu = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  SamplerCounts counts = sampler_.counts();
  int64_t period = period_ns_.load(std::memory_order_relaxed);
  double elapsed = static_cast<double>(now_ns - last_second_ns_);
  int64_t job_cpu = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  uint64_t written = segment_.written_bytes();
  double allowed = stacks_allowance_ns(now_ns - last_second_ns_, job_cpu - job_cpu_ns_,
                                       written - written_bytes_);
  double share = static_cast<double>(cpu - cpu_ns_) / allowed;

  if (sampling_ && period != 0) {
    SamplerStats stats = {};
    stats.passes = counts.passes - reported_.passes;
    stats.taken = counts.taken - reported_.taken;
    stats.torn = counts.torn - reported_.torn;
    auto nominal = static_cast<uint32_t>(elapsed / static_cast<double>(nominal_period_ns_));
    stats.skipped = collecting() && nominal > stats.passes ? nominal - stats.passes : 0;
    stats.cpu_ns = static_cast<uint64_t>(cpu - cpu_ns_);
    stats.period_ns = static_cast<uint64_t>(period);
    sampler_ring_.write(RecordType::kSampler, 0, stats);

    if (share > 1) {
      double longer = static_cast<double>(period) * std::min(share, 4.0);
      period = std::min(static_cast<int64_t>(longer), kMaxPeriodNs);
    } else if (share < kCalm && period > nominal_period_ns_) {
      auto shorter = static_cast<int64_t>(static_cast<double>(period) * kCalm);
      period = std::max(shorter, nominal_period_ns_);
    }
    period_ns_.store(period, std::memory_order_relaxed);
  }
  reported_ = counts;
  cpu_ns_ = cpu;
  job_cpu_ns_ = job_cpu;
  written_bytes_ = written;
  last_second_ns_ = now_ns;
  next_second_ns_ = now_ns + kSecondNs;
}

}  // namespace pilotlight
