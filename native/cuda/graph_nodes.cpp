// native/cuda/graph_nodes.cpp
#include "cuda/graph_nodes.h"

namespace pilotlight::cupti {

void GraphNodes::put(uint64_t node, Origin origin) noexcept {
  if (node == 0) return;
  uint64_t value = uint64_t{origin.range} << 32 | origin.stack;
  uint32_t slot = slot_of(node);
  for (uint32_t i = 0; i < kEntries; i++, slot = (slot + 1) & (kEntries - 1)) {
    uint64_t there = entries_[slot].node.load(std::memory_order_acquire);
    if (there == 0 && used_.load(std::memory_order_relaxed) >= kEntries / 4 * 3) break;
    if (there == 0 && entries_[slot].node.compare_exchange_strong(there, node)) {
      used_.fetch_add(1, std::memory_order_relaxed);
      there = node;
    }
    if (there == node) {
      entries_[slot].origin.store(value, std::memory_order_release);
      return;
    }
  }
  lost_.fetch_add(1, std::memory_order_relaxed);
}

bool GraphNodes::find(uint64_t node, Origin* origin) const noexcept {
  uint32_t slot = slot_of(node);
  for (uint32_t i = 0; i < kEntries; i++, slot = (slot + 1) & (kEntries - 1)) {
    uint64_t there = entries_[slot].node.load(std::memory_order_acquire);
    if (there == 0) return false;
    if (there != node) continue;
    uint64_t value = entries_[slot].origin.load(std::memory_order_acquire);
    *origin = {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)};
    return true;
  }
  return false;
}

}  // namespace pilotlight::cupti
