// native/cuda/graph_nodes.cpp
#include "cuda/graph_nodes.h"

#include "provider/brief_lock.h"

namespace pilotlight::cupti {

void GraphNodes::Table::put(uint64_t node, Origin origin) noexcept {
  if (node == 0) return;
  BriefLock lock(busy_);
  if (!lock) return;
  Entry* place = nullptr;
  uint64_t oldest = ~0ull;
  for (Entry& entry : entries_[bucket_of(node)]) {
    uint64_t there = entry.node.load(std::memory_order_relaxed);
    if (there == node) {
      place = &entry;
      break;
    }
    if (there >= oldest) continue;
    oldest = there;
    place = &entry;
  }
  // Nobody finds it while it changes.
  place->node.store(0, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  place->origin.store(uint64_t{origin.range} << 32 | origin.stack, std::memory_order_relaxed);
  place->node.store(node, std::memory_order_release);
}

bool GraphNodes::Table::find(uint64_t node, Origin* origin) const noexcept {
  for (const Entry& entry : entries_[bucket_of(node)]) {
    if (entry.node.load(std::memory_order_acquire) != node) continue;
    uint64_t value = entry.origin.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (entry.node.load(std::memory_order_relaxed) != node) return false;
    *origin = {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)};
    return true;
  }
  return false;
}

void GraphNodes::clone(uint64_t node, uint64_t original) noexcept {
  Origin origin = {0, 0};
  if (find(original, &origin)) cloned_.put(node, origin);
}

bool GraphNodes::find(uint64_t node, Origin* origin) const noexcept {
  return cloned_.find(node, origin) || created_.find(node, origin);
}

}  // namespace pilotlight::cupti
