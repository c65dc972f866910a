// native/nvtx/ranges.cpp
#include "nvtx/ranges.h"

#include <atomic>

#include "ring/clock.h"

namespace pilotlight::nvtx {
namespace {

struct Open {
  const Handle* domain;
  uint32_t name;  // 0: nothing was written for it
  uint32_t run;
};

struct Stack {
  uint32_t depth;
  uint32_t beyond;  // pushed when the stack was full
  Open open[kMaxDepth];
};
thread_local Stack stack;

// Ranges that may end on another thread than they began on.
struct Started {
  std::atomic<uint64_t> id;  // 0: free; 1: being written
  uint64_t ticks;
  RangeId chained;
  uint32_t name;
  uint32_t run;
};
Started started[kMaxStarted];
std::atomic<uint64_t> next_id{1};
std::atomic<uint64_t> lost{0};

void write_end(RingWriter& ring, uint32_t name, bool is_alone) noexcept {
  RecordHeader header = {};
  header.flags =
      static_cast<uint8_t>(static_cast<uint8_t>(SpanKind::kNvtx) | (is_alone ? kEndAlone : 0));
  ring.write(RecordType::kEnd, name, header);
}

RecordHeader begin_header() noexcept {
  RecordHeader header = {};
  header.flags = static_cast<uint8_t>(SpanKind::kNvtx);
  return header;
}

int depth_in(const Handle* domain) noexcept {
  int depth = 0;
  for (uint32_t i = 0; i < stack.depth; i++) depth += stack.open[i].domain == domain;
  return depth;
}

}  // namespace

int push(const ProviderApi& api, Handle* domain, uint32_t name) noexcept {
  if (stack.depth == kMaxDepth) {
    stack.beyond++;
    lost.fetch_add(1, std::memory_order_relaxed);
    return static_cast<int>(kMaxDepth);
  }
  int depth = depth_in(domain);
  Open& open = stack.open[stack.depth++];
  open = {domain, 0, api.run->load(std::memory_order_relaxed)};
  if (name == 0 || !api.collecting->load(std::memory_order_relaxed)) return depth;
  RingWriter* ring = api.ring();
  if (ring != nullptr && ring->write(RecordType::kBegin, name, begin_header())) open.name = name;
  return depth;
}

int pop(const ProviderApi& api, Handle* domain) noexcept {
  if (stack.beyond > 0) {
    stack.beyond--;
    return static_cast<int>(kMaxDepth);
  }
  uint32_t place = stack.depth;
  while (place > 0 && stack.open[place - 1].domain != domain) place--;
  if (place == 0) return -1;
  Open closed = stack.open[place - 1];
  bool is_alone = place != stack.depth;
  for (uint32_t i = place; i < stack.depth; i++) stack.open[i - 1] = stack.open[i];
  stack.depth--;
  // Also while paused: what was begun is ended. Ids of a parent process mean nothing in its child.
  if (closed.name != 0 && closed.run == api.run->load(std::memory_order_relaxed)) {
    RingWriter* ring = api.ring();
    if (ring != nullptr) write_end(*ring, closed.name, is_alone);
  }
  return depth_in(domain);
}

RangeId start(const ProviderApi& api, uint32_t name, RangeId chained) noexcept {
  RingWriter* ring = api.ring();
  uint64_t ticks = ring != nullptr ? ticks_of(ring->clock()) : 0;
  bool is_written = ring != nullptr && api.collecting->load(std::memory_order_relaxed);
  for (uint32_t tries = 0; tries < 64; tries++) {
    uint64_t id = next_id.fetch_add(1, std::memory_order_relaxed);
    Started& place = started[id & (kMaxStarted - 1)];
    uint64_t free = 0;
    if (id <= 1 || !place.id.compare_exchange_strong(free, 1, std::memory_order_acquire)) continue;
    place.ticks = ticks;
    place.chained = chained;
    place.name = is_written ? name : 0;
    place.run = api.run->load(std::memory_order_relaxed);
    place.id.store(id, std::memory_order_release);
    return id;
  }
  lost.fetch_add(1, std::memory_order_relaxed);
  return 0;
}

RangeId end(const ProviderApi& api, RangeId id) noexcept {
  if (id <= 1) return 0;
  Started& place = started[id & (kMaxStarted - 1)];
  uint64_t expected = id;
  if (!place.id.compare_exchange_strong(expected, 1, std::memory_order_acquire)) return 0;
  Started* found = &place;
  uint32_t name = found->name, run = found->run;
  uint64_t ticks = found->ticks;
  RangeId chained = found->chained;
  place.id.store(0, std::memory_order_release);
  if (name == 0 || run != api.run->load(std::memory_order_relaxed)) return chained;
  RingWriter* ring = api.ring();
  // Both now, on this thread: a reader matches begin and end within one ring.
  if (ring != nullptr && ring->write_at(RecordType::kBegin, name, begin_header(), ticks)) {
    write_end(*ring, name, false);
  }
  return chained;
}

uint64_t ranges_lost() noexcept { return lost.load(std::memory_order_relaxed); }

}  // namespace pilotlight::nvtx
