// native/nccl/events.h: the events between their start and their stop, in a fixed pool. A handle is
// a number with a generation in it: one that NCCL keeps after the end of its event finds nothing.
#pragma once

#include <atomic>
#include <cstdint>

#include "nccl/nccl_abi.h"

namespace pilotlight::nccl {

constexpr uint32_t kMaxEvents = 1 << 13;
constexpr uint32_t kMaxContexts = 256;
constexpr uint32_t kNamedPeers = 256;

// A communicator, or in v1 to v3, which do not say which, what an event names.
struct Context {
  std::atomic<bool> is_used;
  int* mask;  // NCCL's own word: which events it sends
  int version;
  uint64_t hash;
  int rank;
  int ranks;
  char name[64];
  // The smallest difference of host and GPU clock seen in this period and the one before: the proxy
  // thread never sees an event early, and the clocks drift apart.
  std::atomic<int64_t> gpu_offset_ns[2], gpu_offset_period;
  uint32_t group, group_run;
  // Sends to and receives from each peer so far: the nth of the one is the nth of the other.
  std::atomic<uint32_t> sent[kNamedPeers], received[kNamedPeers];
  std::atomic<uint64_t> broadcasts;  // calls so far
};

enum class Phase : uint32_t { kFree = 0, kOpen, kStopped };

struct Event {
  std::atomic<uint32_t> phase;  // Phase
  uint32_t next_free;
  uint64_t type;
  Context* context;
  std::atomic<Event*> parent;  // of a kernel channel or proxy operation: its collective
  std::atomic<uint32_t> generation;
  uint64_t parent_handle;  // of a step
  // Of a collective:
  std::atomic<int32_t> open;     // itself until it is stopped, its children, those still to come
  std::atomic<int32_t> to_come;  // kernel channels that have not begun; of a call, what it enqueues
  int64_t start_ns;
  std::atomic<uint64_t> first_ticks, last_ticks;  // of the kernel, as the host saw it
  std::atomic<uint64_t> wait_ticks;               // of the proxy operation that waited longest
  uint64_t start_ticks, stop_ticks;
  uint64_t sequence;
  std::atomic<uint64_t> correlation;  // read after the end of a call, by what it started
  int64_t bytes;
  uint32_t name, dtype, group, run, rank, ranks, stack;
  uint32_t call_name;  // of a call
  // Of a proxy operation: its own waiting. Of a step: since when it waits; 0: it does not.
  std::atomic<uint64_t> waited_ticks;
  uint64_t waits_since;
};

class Events {
 public:
  // nullptr: the pool is empty; counted.
  Event* take(uint64_t type, Context* context) noexcept;
  void give_back(Event* event) noexcept;
  // The event behind a handle, or nullptr if it has ended or is none of ours.
  Event* find(void* handle) noexcept;
  // The same also if it has ended, as long as nothing else has taken its place.
  Event* remembered(void* handle) noexcept;
  void* handle_of(const Event* event) const noexcept;
  // For each that is in use.
  template <typename Do>
  void each(Do&& act) noexcept {
    for (uint32_t i = 0; i < fresh_.load(std::memory_order_acquire); i++) act(&events_[i]);
  }
  uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

 private:
  std::atomic_flag lock_ = ATOMIC_FLAG_INIT;
  std::atomic<uint32_t> fresh_{0};
  // The one that is free for longest is taken first: NCCL still speaks of calls that have ended.
  uint32_t first_free_ = 0, last_free_ = 0;  // number + 1
  std::atomic<uint64_t> lost_{0};
  Event events_[kMaxEvents];
};

}  // namespace pilotlight::nccl
