// native/cuda/graph_nodes.h: from a node of a CUDA graph to the code that made it.
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/launch_table.h"

namespace pilotlight::cupti {

// Filled while a graph is captured or cloned, on the application's threads; read by ours. Which
// graphs still live is not known, and records come later than their end: where there is no room,
// the oldest node goes. The records that miss it are counted.
class GraphNodes {
 public:
  void create(uint64_t node, Origin origin) noexcept { created_.put(node, origin); }
  // As an instantiation does, too.
  void clone(uint64_t node, uint64_t original) noexcept;
  bool find(uint64_t node, Origin* origin) const noexcept;

 private:
  class Table {
   public:
    void put(uint64_t node, Origin origin) noexcept;
    bool find(uint64_t node, Origin* origin) const noexcept;

   private:
    static constexpr uint32_t kBuckets = 1 << 13;
    static constexpr uint32_t kPlaces = 16;  // in a bucket
    struct Entry {
      std::atomic<uint64_t> node;  // 0: free; ids of CUPTI begin at 1 and grow
      std::atomic<uint64_t> origin;
    };
    static uint32_t bucket_of(uint64_t node) noexcept {
      return static_cast<uint32_t>(node * 0x9e3779b97f4a7c15ull >> 40) & (kBuckets - 1);
    }
    std::atomic_flag busy_ = ATOMIC_FLAG_INIT;
    Entry entries_[kBuckets][kPlaces];
  };
  // Apart: a program that captures again and again to update a graph makes new nodes all the time,
  // but it is the clones of the first ones that run.
  Table created_, cloned_;
};

}  // namespace pilotlight::cupti
