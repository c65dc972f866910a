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
  static constexpr uint32_t kEqualWalks = 3;
  static constexpr uint32_t kMaxWalks = 8;

  // Walks until the thread can be shown to have had this stack. False: torn, nothing to be shown.
  bool take(StackWalker* walker, const ThreadRef& thread, WalkHint* hint, Chain* out) noexcept;

 private:
  Chain other_;
};

}  // namespace pilotlight
