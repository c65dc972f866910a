// native/probe/probe.h: everything pilotlight does inside the user's process.
//
// Nothing here throws, blocks, prints or exits. If something is wrong the probe turns itself off
// and leaves the reason in the segment.
#pragma once

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include "probe/copy_window.h"
#include "probe/link.h"
#include "probe/own_stack.h"
#include "probe/sampler.h"
#include "provider/provider_api.h"
#include "ring/segment.h"

namespace pilotlight {

// Of the calling thread, and of no other that runs.
inline uintptr_t thread_pointer() noexcept {
  uintptr_t pointer;
#if defined(__x86_64__)
  asm("mov %%fs:0, %0" : "=r"(pointer));
#elif defined(__aarch64__)
  asm("mrs %0, tpidr_el0" : "=r"(pointer));
#else
  pointer = static_cast<uintptr_t>(pthread_self());
#endif
  return pointer;
}

struct ProbeOptions {
  const char* socket_path;     // "" for none
  const char* segment_folder;  // nullptr: memory
  std::string_view identity;
  int64_t period_ns;  // of sampling; 0: no sampling
  // Called from the probe's thread when new threads have been seen; must not block.
  void (*on_new_threads)() noexcept;
};

struct ProbeStatus {
  bool started, collecting;
  uint32_t agent_pid;  // 0: not connected
  uint32_t refused;    // why the agent refused us, or 0
  int64_t period_ns;
};

// Hidden: what is known to lie in this library is reached without a table of addresses.
class __attribute__((visibility("hidden"))) Probe {
 public:
  // Once, before anything else. Never destroyed: threads may still write while the process ends.
  static void create() noexcept;
  static Probe& get() noexcept { return *instance; }

  // nullptr, or in one line why not. Starting twice is no error.
  const char* start(const ProbeOptions& options) noexcept;
  // At an orderly end of the interpreter. Does not wait for anything.
  void stop(std::string_view exception) noexcept;
  // Turns everything off for good and says why.
  void turn_off(const char* reason) noexcept;

  static bool collecting() noexcept { return collecting_.load(std::memory_order_relaxed); }
  // Grows with each start, so that ids of a forked child's parent are not taken for its own.
  uint32_t run_number() const noexcept { return run_.load(std::memory_order_relaxed); }
  bool started() const noexcept { return started_.load(std::memory_order_acquire); }

  // The calling thread's ring, or nullptr: the record is lost, and counted if the probe runs.
  RingWriter* ring() noexcept {
    RingWriter* ring = thread_ring;
    return __builtin_expect(ring != nullptr, 1) ? ring : attach({});
  }
  // The same, or nullptr if it has none yet; and where that stands for as long as the thread is.
  static RingWriter* attached() noexcept { return thread_ring; }
  static RingWriter* const* attached_place() noexcept { return &thread_ring; }
  // The same for callers that exclude each other, as those with the GIL do, or nullptr if the last
  // of them was another thread: what is thread-local takes a call in a library that is loaded at
  // run time.
  static RingWriter* attached_last() noexcept {
    if (last_thread.load(std::memory_order_relaxed) != thread_pointer()) return nullptr;
    if (last_ring == nullptr) __builtin_unreachable();
    return last_ring;
  }
  // attached(), and the next caller is told by attached_last().
  static RingWriter* attach_last() noexcept;
  // Called by a thread that ends, with its ring, before that is given back.
  static void (*before_retire)(RingWriter* ring) noexcept;
  // Takes a ring for the calling thread under a better name than the kernel knows.
  RingWriter* attach(std::string_view thread_name) noexcept;

  uint32_t string(std::string_view text) noexcept;
  uint32_t track(uint32_t name, TrackKind kind, uint16_t device, uint64_t stream) noexcept;
  // The calling thread's Python stack, and its innermost open range; 0: none.
  uint32_t own_stack() noexcept;
  uint32_t own_range() noexcept;
  // For providers: a step of this process began.
  void note_step(uint64_t ticks) noexcept {
    uint64_t count = steps_.count.load(std::memory_order_relaxed);
    steps_.ticks[count % StepClock::kKept].store(ticks, std::memory_order_relaxed);
    steps_.count.store(count + 1, std::memory_order_release);
  }
  static const std::atomic<bool>* collecting_word() noexcept { return &collecting_; }
  const std::atomic<uint32_t>* run_word() const noexcept { return &run_; }
  const std::atomic<uint32_t>* tier_word() const noexcept { return &tier_; }
  const StepClock* steps() const noexcept { return &steps_; }
  // Tells the name of any thread of this process; recorded with its next sample.
  void name_thread(uint32_t tid, std::string_view name) noexcept;
  void mark(ProcessMark mark, std::string_view name, int64_t value) noexcept;
  void set_identity(std::string_view identity) noexcept;
  ProbeStatus status() const noexcept;
  const char* off_reason() const noexcept;

 private:
  Probe() = default;
  static void retire(void* ring) noexcept;
  static void after_fork_in_child() noexcept;
  static void* run(void* probe) noexcept;

  bool connect() noexcept;
  void loop() noexcept;
  void rest_after_long_pass() noexcept;
  void listen(int64_t wait_ns) noexcept;
  void handle(const Control& control) noexcept;
  void second(int64_t now_ns) noexcept;
  void ask_for_names(int64_t now_ns) noexcept;
  void pause() noexcept;
  void resume() noexcept;

  static Probe* instance;
  // Not thread_local: that asks on every access whether something is to be constructed first.
  static __thread RingWriter* thread_ring;
  // Of whom attached_last() speaks: set by that thread alone, and forgotten before its thread_ring
  // is.
  static std::atomic<uintptr_t> last_thread;
  static RingWriter* last_ring;
  static void forget_last() noexcept;

  Segment segment_;
  Link link_;
  Sampler sampler_;
  RingWriter rings_[kMaxRings];
  std::atomic<bool> started_{false};
  static std::atomic<bool> collecting_;  // found without asking where the probe lies
  std::atomic<bool> stopping_{false};
  std::atomic<uint32_t> run_{0};
  std::atomic<uint32_t> tier_{0};
  StepClock steps_ = {};
  OwnStack own_stack_;
  // Of own_stack_: 0 not opened yet, 1 being opened, 2 usable, 3 not.
  std::atomic<uint32_t> own_stack_state_{0};
  std::atomic<uint32_t> agent_pid_{0};
  std::atomic<uint32_t> refused_{0};
  pthread_key_t key_ = 0;
  bool prepared_ = false;

  // Of the probe's own thread.
  CopyWindow window_;
  RingWriter sampler_ring_;
  bool sampling_ = false;
  void (*on_new_threads_)() noexcept = nullptr;
  int64_t nominal_period_ns_ = 0;
  std::atomic<int64_t> period_ns_{0};
  int64_t next_pass_ns_ = 0;
  int64_t next_second_ns_ = 0;
  int64_t last_second_ns_ = 0;
  int64_t heard_ns_ = 0;
  int64_t cpu_ns_ = 0;
  int64_t job_cpu_ns_ = 0;
  uint64_t written_bytes_ = 0;
  SamplerCounts reported_ = {};
  uint32_t asked_named_ = 0;
  int64_t asked_ns_ = 0;
  uint32_t random_ = 1;
};

}  // namespace pilotlight
