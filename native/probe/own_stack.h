// native/probe/own_stack.h: the calling thread's own Python stack, for whoever launches work.
#pragma once

#include <atomic>
#include <cstdint>

#include "probe/stack_interner.h"
#include "probe/stack_walk.h"

namespace pilotlight {

// A thread inside a call from Python does not change its own frames, so they can be read where they
// lie: a hash over code and instructions, and a look whether that was seen before. Only new chains
// are interned, by one thread at a time; who comes meanwhile gets 0.
class OwnStack {
 public:
  // False: this Python cannot be walked. Allocates about 1 MB, so only when somebody asks.
  bool open(const PythonInfo& python, Definitions* definitions) noexcept;
  // About once a second, by the probe's thread: what is known of code is not believed for ever.
  void tell_time(int64_t now_ns) noexcept;
  // The stack's id; 0: no Python on this thread, or not known.
  uint32_t take() noexcept;

 private:
  static constexpr uint32_t kEntries = 1 << 13;
  struct Entry {
    std::atomic<uint64_t> check;  // hash ^ value: an entry written by two at once fits nothing
    std::atomic<uint64_t> value;  // epoch << 32 | stack
  };
  struct Slow;

  uint64_t leaf() const noexcept;
  uint32_t intern(uint64_t frame, uint64_t hash, uint32_t epoch) noexcept;

  PythonInfo python_ = {};
  bool has_cframe_ = false;
  std::atomic<uint32_t> epoch_{1};
  Entry* entries_ = nullptr;
  Slow* slow_ = nullptr;
  std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
};

}  // namespace pilotlight
