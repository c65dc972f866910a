// native/probe/thread_names.h: the names that Python has for its threads, which the kernel, before
// Python 3.14, does not know.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

namespace pilotlight {

// Written by any thread, read by the sampler. Thread ids of a process mostly follow one another, so
// each has a place of its own; where two meet, the newer stays and the kernel names the other.
class ThreadNames {
 public:
  void put(uint32_t tid, uint32_t name) noexcept {
    places_[tid % kPlaces].store(uint64_t{tid} << 32 | name, std::memory_order_relaxed);
  }
  // 0: not known.
  uint32_t of(uint32_t tid) const noexcept {
    uint64_t entry = places_[tid % kPlaces].load(std::memory_order_relaxed);
    return entry >> 32 == tid ? static_cast<uint32_t>(entry) : 0;
  }

 private:
  static constexpr uint32_t kPlaces = 512;
  std::array<std::atomic<uint64_t>, kPlaces> places_ = {};
};

}  // namespace pilotlight
