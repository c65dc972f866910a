// native/cuda/launches.h: T0, what happens on the application's threads when they launch work.
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/cupti_library.h"
#include "cuda/launch_table.h"
#include "provider/provider_api.h"

namespace pilotlight::cupti {

class Launches {
 public:
  static constexpr uint32_t kMaxId = 1024;
  static constexpr uint32_t kTimedOneIn = 16;

  explicit Launches(LaunchTable* table) noexcept : table_(table) {}
  void open(const ProviderApi* api, ClockKind clock) noexcept;

  // All of them, or none; by one thread at a time. The first error that is not "no such call".
  Result enable(Library* library, bool on) noexcept;
  // CUPTI's own records of the calls that start work. kUnknown: it cannot choose among calls.
  Result enable_records(Library* library, bool on) noexcept;
  // Called by CUPTI on the application's threads.
  void callback(uint32_t domain, uint32_t id, const CallbackData& data) noexcept;
  // The call under way on this thread made a node of a graph.
  static void note_captured() noexcept;

  // What such a call starts; 0: it is none of ours.
  uint8_t kind_of(uint32_t domain, uint32_t id) const noexcept {
    return domain <= kRuntime && id < kMaxId ? kinds_[domain][id] : 0;
  }

  // Of all threads since the start, from every kTimedOneIn-th launch.
  uint64_t launches() const noexcept { return launches_.load(std::memory_order_relaxed); }
  // Of whole graphs, each of them.
  uint64_t graphs() const noexcept { return graphs_.load(std::memory_order_relaxed); }
  // Of those that launch a kernel: how many were timed, and how long their calls took.
  uint64_t calls() const noexcept { return calls_.load(std::memory_order_relaxed); }
  uint64_t call_ticks() const noexcept { return call_ticks_.load(std::memory_order_relaxed); }
  uint64_t cost_ticks() const noexcept { return cost_ticks_.load(std::memory_order_relaxed); }

 private:
  struct PerThread;
  uint32_t name_of(uint32_t domain, uint32_t id, const char* function) noexcept;
  void enter(PerThread* thread, uint32_t domain, uint32_t id, const CallbackData& data) noexcept;
  void leave(PerThread* thread, uint32_t domain, uint32_t id, const CallbackData& data) noexcept;

  LaunchTable* table_;
  const ProviderApi* api_ = nullptr;
  ClockKind clock_ = ClockKind::kMonotonic;
  std::atomic<uint32_t> turn_{1};  // of being enabled: an exit without its enter is not counted
  std::atomic<uint64_t> launches_{0};
  std::atomic<uint64_t> graphs_{0};
  std::atomic<uint64_t> cost_ticks_{0};
  std::atomic<uint64_t> calls_{0};
  std::atomic<uint64_t> call_ticks_{0};
  uint8_t kinds_[3][kMaxId] = {};
  std::atomic<uint32_t> names_[3][kMaxId] = {};
};

}  // namespace pilotlight::cupti
