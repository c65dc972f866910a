// native/cuda/record_fields.h: the fields of CUPTI's records that we read, where CUPTI lets one
// choose (libcupti 13.3 on): a kernel is 72 bytes instead of 240.
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/cupti_abi.h"
#include "cuda/record_fields_abi.h"

namespace pilotlight::cupti {

// A record as the decoder knows it, whatever CUPTI's looks like.
union WholeRecord {
  Activity any;
  KernelRecord kernel;
  MemcpyRecord copy;
  MemcpyPeerRecord peer_copy;
  MemsetRecord set;
  SynchronizationRecord wait;
  GraphTraceRecord graph;
  OverheadRecord overhead;
  MemoryRecord memory;
};

class RecordFields {
 public:
  static constexpr uint32_t kMaxFields = 12;
  // What to ask for with a kind, in the form in which CUPTI wants it.
  struct Selection {
    ActivityConfig config;
    int fields[kMaxFields];
  };
  // False: it is none of ours.
  static bool select(Kind kind, Selection* selection) noexcept;

  // From a buffer that came back, before it is read. Any thread.
  void learn(const CompleteInfo* info) noexcept;
  // CUPTI told nothing of where fields lie, or not what we asked for: such records cannot be read.
  bool has_failed() const noexcept { return failed_.load(std::memory_order_relaxed); }
  // False: it is not known where the fields of this kind lie.
  bool unpack(const Activity& record, WholeRecord* whole) const noexcept;

 private:
  static constexpr uint32_t kKinds = 64;
  struct Move {
    uint16_t from, to;
    uint8_t bytes;  // 1, 4 or 8
  };
  struct Plan {
    std::atomic<uint32_t> count;  // of moves; 0: not known
    Move moves[kMaxFields];
  };

  void learn_kind(uint32_t kind, const RecordLayout& layout) noexcept;

  std::atomic_flag learns_ = ATOMIC_FLAG_INIT;  // one thread at a time
  Plan plans_[kKinds] = {};
  std::atomic<bool> failed_{false};
};

}  // namespace pilotlight::cupti
