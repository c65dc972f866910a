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
  static constexpr uint32_t kWalks = 6;
  static constexpr uint32_t kTogether = 2;  // of them, how many one system call may fetch
  static constexpr uint32_t kMaxTries = 40;

  // The stack that kWalks walks in a row have in common; the first kTogether of them were fetched
  // already, from `place` on. False: torn, there is none.
  bool take_fetched(StackWalker* walker, uint32_t place, const ThreadRef& thread, WalkHint* hint,
                    Chain* out) noexcept;

  // The same, fetched here.
  bool take(StackWalker* walker, const ThreadRef& thread, WalkHint* hint, Chain* out) noexcept;

 private:
  bool add(const Chain& walk, Chain* out) noexcept;
  bool confirm(StackWalker* walker, const ThreadRef& thread, WalkHint* hint, Chain* out) noexcept;

  uint32_t walks_ = 0;
  Chain walk_;
  Chain other_;
};

}  // namespace pilotlight
