// native/probe/stack_snapshot.h: from walks of a moving thread to a stack that really was.
#pragma once

#include <cstdint>

#include "probe/stack_walk.h"

namespace pilotlight {

// How many nodes from the root on (the oldest kept, if cut) are the same in both walks: frame, code
// and instruction. `*next_moved`: the node after them is the same frame of the same code at another
// instruction.
uint32_t common_nodes(const Chain& a, const Chain& b, bool* next_moved) noexcept;

// Takes the newest nodes away so that `nodes` remain.
void cut_newest(Chain* chain, uint32_t nodes) noexcept;

class StackSnapshot {
 public:
  // Places of a fetch: frames with the leaf before them, the same again, and a leaf.
  static constexpr uint32_t kFetches = 3;
  // With more frames outside of the data stack than this, others might find no room beside them.
  static constexpr uint32_t kMaxStrays = 32;
  static_assert(2 * StackWalker::kMaxGuessed +
                    2 * (2 * (kMaxStrays + WalkHint::kFixedSpans) + WalkHint::kFixedSpans) +
                    WalkHint::kMaxStrays + WalkHint::kFixedSpans + 1 <=
                ProcessMemory::kMaxSpans);
  // Where in a fetch what want_all() asked for begins: it has to be asked for twice.
  struct Places {
    uint32_t first, second;
  };

  // Asks for what take_fetched() needs. `hint` has to live as long as the fetch's copies are used.
  void want_all(const ThreadRef& thread, WalkHint* hint, StackWalker::Want* wants) noexcept;

  // The stack that all walks have in common; what want_all() asked for was fetched already.
  // False: torn, there is none.
  bool take_fetched(StackWalker* walker, const Places& places, const ThreadRef& thread,
                    WalkHint* hint, Chain* out) noexcept;

  // The same, fetched here.
  bool take(StackWalker* walker, const ThreadRef& thread, WalkHint* hint, Chain* out) noexcept;

 private:
  static constexpr uint32_t kWholePoints = 3;  // of a fetch that had everything; else 1
  static constexpr uint32_t kEnoughPoints = 6;
  static constexpr uint32_t kMaxTries = 40;

  void add(const Chain& walk, Chain* out) noexcept;
  void add_fetched(StackWalker* walker, uint32_t place, WalkHint* hint, Chain* out) noexcept;
  bool confirm(StackWalker* walker, const ThreadRef& thread, WalkHint* hint, Chain* out) noexcept;

  uint32_t points_ = 0;
  bool has_walk_ = false;
  WalkHint leaf_hint_ = {};
  Chain walk_;
  Chain other_;
};

}  // namespace pilotlight
