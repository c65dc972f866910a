// native/probe/stack_snapshot.cpp
//
// A thread that holds the interpreter lock goes on while we read: a call or return takes 20 to 50
// ns, a walk some microseconds. So a single walk may mix frames of different moments, even where
// every link in it is sound: frames have no owner's mark, and a returned-from frame keeps its
// bytes.
//
// What a returned-from frame leaves behind is the trap: after pb() -> shared() has returned and
// numbers() been called, its frame lies where pb's was, under the old bytes of shared's. Who read
// "the newest frame is shared's" before and the frames after that sees numbers -> shared. So where
// the newest frame is ("the leaf") is read before and after the frames, and twice: leaf, frames,
// leaf, frames, leaf, in one system call of less than a microsecond. Each neighbouring pair of a
// leaf and frames gives a chain; what the four chains have in common is kept. For a wrong link to
// be in all of them, the frames must twice be read in the short time between the call of the lower
// function and its next call, with the thread deeper than that before, between and after: a whole
// round of the program's loop between two reads that are some hundred nanoseconds apart. Two such
// groups of reads have to agree, so the odds multiply. Both may be in one system call if others are
// read in between: a loop with the rhythm of the reads does not keep it over them.
//
// Where the frames are not all known beforehand (a deep stack, a new one) the walk reads on by
// itself; such a walk counts for less, and six of them have to agree.
//
// The newest frame may be at another instruction each time, since a thread that runs Python code
// never stands still; it is in that frame all the same. And a thread that calls and returns all the
// time hardly ever shows equal walks. But the frames that all walks share are a stack by the
// argument above, and what changed above them shows that the thread was back in the newest of them
// in between: that stack is taken. So a call that is shorter than the walks (some microseconds) may
// count as its caller's own time, but no stack is made up.
#include "probe/stack_snapshot.h"

#include <algorithm>
#include <cstring>
#include <iterator>

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

void StackSnapshot::add(const Chain& walk, Chain* out) noexcept {
  other_ = walk;
  if (has_walk_) {
    align_oldest(out, &other_);
    bool moved = false;
    uint32_t common = common_nodes(*out, other_, &moved);
    if (moved) common++;
    bool is_empty = out->nodes == 0 && other_.nodes == 0;
    if (common != 0 || is_empty) {
      cut_newest(&other_, common);
    } else {
      points_ = 0;
    }
  }
  *out = other_;
  has_walk_ = true;
}

void StackSnapshot::add_fetched(StackWalker* walker, uint32_t place, WalkHint* hint,
                                Chain* out) noexcept {
  struct Pair {
    uint32_t leaf, frames;
  };
  constexpr Pair kPairs[] = {{0, 0}, {1, 0}, {1, 1}, {2, 1}};
  uint32_t points = 0;
  for (const Pair& pair : kPairs) {
    bool late = false;
    if (!walker->walk(place + pair.leaf, place + pair.frames, hint, &walk_, &late)) break;
    add(walk_, out);
    points = 1;
    // A walk that read more after the fetch does not lie before the next one any more.
    if (late) break;
    if (&pair == std::end(kPairs) - 1) points = kWholePoints;
  }
  points_ += points;
}

bool StackSnapshot::take_fetched(StackWalker* walker, const Places& places, const ThreadRef& thread,
                                 WalkHint* hint, Chain* out) noexcept {
  points_ = 0;
  has_walk_ = false;
  add_fetched(walker, places.first, hint, out);
  // Where the hint was wrong once it is wrong twice, and by now it is better.
  if (points_ == kWholePoints) add_fetched(walker, places.second, hint, out);
  return confirm(walker, thread, hint, out);
}

bool StackSnapshot::take(StackWalker* walker, const ThreadRef& thread, WalkHint* hint,
                         Chain* out) noexcept {
  points_ = 0;
  has_walk_ = false;
  return confirm(walker, thread, hint, out);
}

bool StackSnapshot::confirm(StackWalker* walker, const ThreadRef& thread, WalkHint* hint,
                            Chain* out) noexcept {
  for (uint32_t tries = 0; points_ < kEnoughPoints; tries++) {
    if (tries == kMaxTries) return false;
    StackWalker::Want wants[kFetches];
    StackWalker::More nothing;
    Gil after;
    want_all(thread, hint, wants);
    if (walker->fetch(wants, kFetches, &nothing, &after) == kFetches)
      add_fetched(walker, 0, hint, out);
  }
  return true;
}

void StackSnapshot::want_all(const ThreadRef& thread, WalkHint* hint,
                             StackWalker::Want* wants) noexcept {
  // Without the copy of the listing: each reads all by itself.
  ThreadRef anew = {thread.address, thread.gil, thread.tid, nullptr};
  leaf_hint_ = {};
  std::memcpy(leaf_hint_.cframe, hint->cframe, sizeof(leaf_hint_.cframe));
  wants[0] = wants[1] = {anew, hint};
  wants[2] = {anew, &leaf_hint_};
}

}  // namespace pilotlight
