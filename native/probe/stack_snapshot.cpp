// native/probe/stack_snapshot.cpp
//
// A thread that holds the interpreter lock goes on while we read: a call or return takes 20 to 50
// ns, a walk some microseconds. So a single walk may mix frames of different moments, even where
// every link in it is sound: frames have no owner's mark, and a returned-from frame keeps its
// bytes.
//
// Take walks 1, 2, ... of one thread, each reading all words of the chain (where the newest frame
// is, and per frame code, caller and instruction), each after the end of the one before. If a word
// has the same value in walks i and i + 1 and did not change in between, it had that value at any
// instant between the two walks; if this is so for all words, the whole chain existed at that
// instant. What remains is a word that changed and changed back between its two readings. For a
// wrong stack to pass this has to happen for two groups of words in opposite phase: some frames
// read only while the thread was in one stack and others only while it was in another, in every
// walk again. So more than two walks are made, and the odds multiply; some of them by system calls
// of their own, since a loop may be in step with walks that follow each other at a fixed distance.
//
// The newest frame may be at another instruction each time, since a thread that runs Python code
// never stands still; it is in that frame all the same. And a thread that calls and returns all the
// time hardly ever shows equal walks. But the frames that all walks share are a stack by the
// argument above, and what changed above them shows that the thread was back in the newest of them
// in between: that stack is taken. So a call that is shorter than the walks (some microseconds) may
// count as its caller's own time, but no stack is made up.
#include "probe/stack_snapshot.h"

#include <algorithm>

namespace pilotlight {
namespace {

bool is_same(const Node& a, const Node& b) noexcept {
  return a.address == b.address && a.code == b.code && a.instruction == b.instruction;
}

void cut_oldest(Chain* chain, uint32_t nodes) noexcept {
  for (uint32_t i = nodes; i < chain->nodes; i++) chain->frames -= chain->node[i].code != 0;
  chain->nodes = nodes;
  chain->cut = true;
}

// Two cut chains may begin at different frames: leaves both with the oldest that both have.
void align_oldest(Chain* a, Chain* b) noexcept {
  if ((!a->cut && !b->cut) || a->nodes == 0 || b->nodes == 0) return;
  for (uint32_t i = 0; i < a->nodes; i++) {
    if (a->node[i].address == b->node[b->nodes - 1].address) return cut_oldest(a, i + 1);
  }
  for (uint32_t i = 0; i < b->nodes; i++) {
    if (b->node[i].address == a->node[a->nodes - 1].address) return cut_oldest(b, i + 1);
  }
}

}  // namespace

uint32_t common_nodes(const Chain& a, const Chain& b, bool* next_moved) noexcept {
  uint32_t limit = std::min(a.nodes, b.nodes);
  uint32_t same = 0;
  while (same < limit && is_same(a.node[a.nodes - 1 - same], b.node[b.nodes - 1 - same])) same++;
  *next_moved = false;
  if (same < limit) {
    const Node& next_a = a.node[a.nodes - 1 - same];
    const Node& next_b = b.node[b.nodes - 1 - same];
    *next_moved = next_a.address == next_b.address && next_a.code == next_b.code;
  }
  return same;
}

void cut_newest(Chain* chain, uint32_t nodes) noexcept {
  uint32_t away = chain->nodes - nodes;
  for (uint32_t i = 0; i < away; i++) chain->frames -= chain->node[i].code != 0;
  for (uint32_t i = 0; i < nodes; i++) chain->node[i] = chain->node[i + away];
  chain->nodes = nodes;
}

bool StackSnapshot::add(const Chain& walk, Chain* out) noexcept {
  other_ = walk;
  if (walks_ > 0) {
    align_oldest(out, &other_);
    bool moved = false;
    uint32_t common = common_nodes(*out, other_, &moved);
    if (moved) common++;
    bool is_empty = out->nodes == 0 && other_.nodes == 0;
    if (common != 0 || is_empty) {
      cut_newest(&other_, common);
    } else {
      walks_ = 0;
    }
  }
  *out = other_;
  return ++walks_ == kWalks;
}

bool StackSnapshot::take_fetched(StackWalker* walker, uint32_t place, const ThreadRef& thread,
                                 WalkHint* hint, Chain* out) noexcept {
  walks_ = 0;
  for (uint32_t i = 0; i < kTogether; i++) {
    bool late = false;
    // A walk that read more after the fetch does not lie before the next one any more.
    if (!walker->walk(place + i, hint, &walk_, &late) || late) {
      walks_ = 0;
      break;
    }
    add(walk_, out);
  }
  return confirm(walker, thread, hint, out);
}

bool StackSnapshot::take(StackWalker* walker, const ThreadRef& thread, WalkHint* hint,
                         Chain* out) noexcept {
  // Without the copy of the listing: each walk reads all by itself.
  StackWalker::Want wants[kTogether];
  for (auto& want : wants) want = {{thread.address, thread.gil, thread.tid, nullptr}, hint};
  Gil after;
  walks_ = 0;
  if (walker->fetch(wants, kTogether, &after) == kTogether) {
    return take_fetched(walker, 0, thread, hint, out);
  }
  return confirm(walker, thread, hint, out);
}

bool StackSnapshot::confirm(StackWalker* walker, const ThreadRef& thread, WalkHint* hint,
                            Chain* out) noexcept {
  StackWalker::Want want = {{thread.address, thread.gil, thread.tid, nullptr}, hint};
  Gil after;
  for (uint32_t tries = 0; tries < kMaxTries; tries++) {
    bool late = false;
    walker->fetch(&want, 1, &after);
    if (walker->walk(0, hint, &walk_, &late) && add(walk_, out)) return true;
  }
  return false;
}

}  // namespace pilotlight
