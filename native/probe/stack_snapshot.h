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
  static constexpr uint32_t kWalks = 4;
  static constexpr uint32_t kMaxTries = 12;

  // The stack that kWalks walks in a row have in common. They were fetched together, the first at
  // `place`. False: they do not show one.
  bool take_fetched(StackWalker* walker, uint32_t place, WalkHint* hint, Chain* out) noexcept;

  // The same, fetched here. False: torn, there is none.
  bool take(StackWalker* walker, const ThreadRef& thread, WalkHint* hint, Chain* out) noexcept;

 private:
  bool add(const Chain& walk, Chain* out) noexcept;

  uint32_t walks_ = 0;
  Chain walk_;
  Chain other_;
};

}  // namespace pilotlight
