// native/probe/thread_table.h: what the sampler remembers of each thread, in fixed space.
#pragma once

#include <cstdint>

#include "probe/stack_walk.h"
#include "probe/thread_state.h"

namespace pilotlight {

struct ThreadEntry {
  ThreadRef ref = {};
  uint64_t seen_pass = 0;
  uint64_t cpu_ns = 0;      // before its stack was last read; 0: not known
  int64_t sampled_ns = 0;   // when its last sample was written; 0: never
  int64_t named_ns = 0;     // when its name was last looked at; 0: never
  uint64_t ran_cpu_ns = 0;  // its CPU time when has_run() was last asked, and when that was
  int64_t ran_at_ns = 0;
  uint32_t name = 0;
  uint32_t stack = 0;       // of the last sample
  uint64_t leaf = 0;        // its newest frame and instruction, in one word
  uint8_t flags = 0;        // of the last sample
  bool has_stack = false;   // stack, flags and state describe the thread as of cpu_ns
  bool has_frames = false;  // else it runs no Python code
  bool has_moved = false;   // between the last two samples
  ThreadState state = ThreadState::kUnknown;
  uint64_t state_pass = 0;  // in which the kernel was asked for it
  uint32_t lock_waits = 0;  // how often in a row the answer was that it waits for the lock
  ThreadStateFile file;
  WalkHint hint = {};

  // Its CPU time has not moved since before its stack was last read.
  bool has_rested() noexcept;
  // It had the CPU all the time since this was last asked.
  bool has_run(int64_t now_ns) noexcept;
};

class ThreadTable {
 public:
  static constexpr uint32_t kMaxThreads = 512;
  // Files kept open in the user's process; further threads have theirs opened each time.
  static constexpr uint32_t kMaxFiles = 64;

  ~ThreadTable();

  // The entry of this thread, new if it was not there; null if the table is full.
  ThreadEntry* find(const ThreadRef& ref, uint64_t pass) noexcept;

  // Lets go of threads that were not seen in this pass.
  void sweep(uint64_t pass) noexcept;

  void forget_times() noexcept;

  ThreadState state_of(ThreadEntry* entry, pid_t pid, const GilAddresses& gil) noexcept;

 private:
  void release(ThreadEntry* entry) noexcept;

  uint32_t used_ = 0;
  uint32_t files_ = 0;
  uint32_t next_ = 0;  // where the thread after the last found one should be
  // Not constructed before a thread needs it: most pages of the table are never touched.
  ThreadEntry* entries() noexcept { return reinterpret_cast<ThreadEntry*>(storage_); }
  alignas(ThreadEntry) unsigned char storage_[kMaxThreads * sizeof(ThreadEntry)];
};

}  // namespace pilotlight
