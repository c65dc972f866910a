// native/probe/thread_names.h: the names that Python has for its threads, which the kernel, before
// Python 3.14, does not know.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string_view>

#include "ring/definitions.h"

namespace pilotlight {

// Written by any thread, read by the sampler. Thread ids of a process mostly follow one another, so
// each has a place of its own; where two meet, the newer stays and the kernel names the other.
class ThreadNames {
 public:
  void put(uint32_t tid, std::string_view name, Definitions* definitions) noexcept {
    char folded[kFoldedBytes];
    uint32_t id = definitions->string(bounded(name, folded));
    // Ids grow: one beyond all others is of a new name. Two at once may count as one.
    if (id > newest_.load(std::memory_order_relaxed)) {
      newest_.store(id, std::memory_order_relaxed);
      count_.fetch_add(1, std::memory_order_relaxed);
    }
    places_[tid % kPlaces].store(uint64_t{tid} << 32 | id, std::memory_order_relaxed);
  }
  // 0: not known.
  uint32_t of(uint32_t tid) const noexcept {
    uint64_t entry = places_[tid % kPlaces].load(std::memory_order_relaxed);
    return entry >> 32 == tid ? static_cast<uint32_t>(entry) : 0;
  }

  // In a forked child: the names are of the parent's arena.
  void forget() noexcept {
    for (auto& place : places_) place.store(0, std::memory_order_relaxed);
    newest_.store(0, std::memory_order_relaxed);
    count_.store(0, std::memory_order_relaxed);
  }

  static constexpr uint32_t kFoldedBytes = 64;
  // What is defined stays, and a server may give each of a million threads a name of its own: after
  // some names their numbers are left out, and after as many again all are one.
  std::string_view bounded(std::string_view name, char (&folded)[kFoldedBytes]) const noexcept {
    uint32_t count = count_.load(std::memory_order_relaxed);
    if (count < kWhole) return name;
    if (count >= 2 * kWhole) return "thread";
    uint32_t size = 0;
    for (char c : name) {
      if (size == kFoldedBytes) break;
      bool is_digit = c >= '0' && c <= '9';
      if (!is_digit || size == 0 || folded[size - 1] != '#') folded[size++] = is_digit ? '#' : c;
    }
    return {folded, size};
  }

 private:
  static constexpr uint32_t kPlaces = 512;
  static constexpr uint32_t kWhole = 1000;
  std::array<std::atomic<uint64_t>, kPlaces> places_ = {};
  std::atomic<uint32_t> newest_{0};
  std::atomic<uint32_t> count_{0};
};

}  // namespace pilotlight
