// native/cuda/graph_nodes.h: from a node of a CUDA graph to the code that made it.
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/launch_table.h"

namespace pilotlight::cupti {

// Filled while a graph is captured or cloned, on the application's threads; read by ours. A graph
// keeps its nodes for as long as it lives, so nothing is thrown out; when the table is full, new
// nodes are counted and have no origin.
class GraphNodes {
 public:
  static constexpr uint32_t kEntries = 1 << 16;

  void put(uint64_t node, Origin origin) noexcept;
  bool find(uint64_t node, Origin* origin) const noexcept;
  uint64_t lost() const noexcept { return lost_.load(std::memory_order_relaxed); }

 private:
  struct Entry {
    std::atomic<uint64_t> node;  // 0: free; ids of CUPTI begin at 1
    std::atomic<uint64_t> origin;
  };
  static uint32_t slot_of(uint64_t node) noexcept {
    return static_cast<uint32_t>(node * 0x9e3779b97f4a7c15ull >> 40) & (kEntries - 1);
  }
  Entry entries_[kEntries];
  std::atomic<uint32_t> used_{0};
  std::atomic<uint64_t> lost_{0};
};

}  // namespace pilotlight::cupti
