// native/cuda/launch_table.h: from a correlation number to where the work was launched.
//
// Written by the launching threads, read by ours when the record of the work arrives, a moment to
// some seconds later. An entry that was overwritten meanwhile is not found; the Launch record in
// the ring still tells.
#pragma once

#include <atomic>
#include <cstdint>

namespace pilotlight::cupti {

struct Origin {
  uint32_t stack;
  uint32_t range;
};

class LaunchTable {
 public:
  static constexpr uint32_t kEntries = 1 << 16;

  void put(uint32_t correlation, Origin origin) noexcept {
    Entry& entry = entries_[correlation & (kEntries - 1)];
    uint64_t value = uint64_t{origin.range} << 32 | origin.stack;
    // Both words fit each other only if the same thread wrote them.
    entry.value.store(value, std::memory_order_relaxed);
    entry.check.store(value ^ mixed(correlation), std::memory_order_release);
  }

  bool find(uint32_t correlation, Origin* origin) const noexcept {
    const Entry& entry = entries_[correlation & (kEntries - 1)];
    uint64_t check = entry.check.load(std::memory_order_acquire);
    uint64_t value = entry.value.load(std::memory_order_relaxed);
    if ((value ^ mixed(correlation)) != check) return false;
    *origin = {static_cast<uint32_t>(value), static_cast<uint32_t>(value >> 32)};
    return true;
  }

  // Not while anybody writes: when ids have become void.
  void clear() noexcept {
    for (Entry& entry : entries_) entry.check.store(0, std::memory_order_relaxed);
  }

 private:
  struct Entry {
    std::atomic<uint64_t> value;
    std::atomic<uint64_t> check;
  };
  static uint64_t mixed(uint32_t correlation) noexcept {
    return (uint64_t{correlation} + 1) * 0x9e3779b97f4a7c15ull;
  }
  Entry entries_[kEntries];
};

}  // namespace pilotlight::cupti
