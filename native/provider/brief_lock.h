// native/provider/brief_lock.h: for a few hundred nanoseconds of work in somebody else's process.
//
// Its holder may have been preempted, or be gone: a fork copies the flag, but not the thread that
// would clear it. So nobody waits for long. Who cannot have it goes on without and counts what it
// could not do.
#pragma once

#include <sched.h>

#include <atomic>

namespace pilotlight {

class BriefLock {
 public:
  explicit BriefLock(std::atomic_flag& flag) noexcept : flag_(flag), is_held_(take()) {}
  ~BriefLock() {
    if (is_held_) flag_.clear(std::memory_order_release);
  }
  BriefLock(const BriefLock&) = delete;
  BriefLock& operator=(const BriefLock&) = delete;

  explicit operator bool() const noexcept { return is_held_; }

 private:
  bool take() noexcept {
    for (int spin = 0; spin < 1000; spin++) {
      if (!flag_.test_and_set(std::memory_order_acquire)) return true;
    }
    for (int turn = 0; turn < 16; turn++) {
      sched_yield();
      if (!flag_.test_and_set(std::memory_order_acquire)) return true;
    }
    return false;
  }

  std::atomic_flag& flag_;
  bool is_held_;
};

}  // namespace pilotlight
