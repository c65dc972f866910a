// native/cuda/lent_place.h: the subscription of another tool, used by us while that one traces
// nothing.
//
// Before libcupti 13.3 there is one subscriber a process, and some tools never unsubscribe:
// PyTorch's profiler before August 2026 keeps its place to the end of the job once it was used. Its
// calls lead past us, so what CUPTI calls back is first ours to see: it goes to the tool if the
// tool asked for it, and to us if we did.
#pragma once

#include <pthread.h>

#include <atomic>

#include "cuda/cupti_abi.h"

namespace pilotlight::cupti {

// CUPTI's own functions.
struct PlaceFunctions {
  Result (*subscribe)(Subscriber*, Callback, void*);
  Result (*enable_callback)(uint32_t, Subscriber, uint32_t, uint32_t);
  Result (*enable_domain)(uint32_t, Subscriber, uint32_t);
  Result (*enable_all)(uint32_t, Subscriber);
};

class LentPlace {
 public:
  static LentPlace& get() noexcept;

  // Of the tool: its calls, each with CUPTI's answer.
  void know(const PlaceFunctions& functions) noexcept;
  Result subscribe(Subscriber* subscriber, Callback callback, void* user) noexcept;
  Result enable_callback(uint32_t on, Subscriber subscriber, uint32_t domain, uint32_t id) noexcept;
  Result enable_domain(uint32_t on, Subscriber subscriber, uint32_t domain) noexcept;
  Result enable_all(uint32_t on, Subscriber subscriber) noexcept;
  // It traced, and has turned all of it off.
  void lend() noexcept { is_lent_.store(subscriber_ != nullptr, std::memory_order_release); }
  void take_back() noexcept { is_lent_.store(false, std::memory_order_release); }
  // There is no subscriber any more.
  void close() noexcept;
  bool is_lent() const noexcept { return is_lent_.load(std::memory_order_acquire); }

  // Ours: only while it is lent. Not nullptr: the tool's subscriber.
  Subscriber use(Callback callback, void* user) noexcept;
  Result enable_ours(bool on, uint32_t domain, uint32_t id) noexcept;
  // All that was on for us is off.
  void leave() noexcept;

 private:
  static constexpr uint32_t kDomains = 8, kIds = 1024;
  static void through(void* place, uint32_t domain, uint32_t id, const void* data) noexcept;
  static bool is_known(uint32_t domain, uint32_t id) noexcept {
    return domain < kDomains && id < kIds;
  }
  void set_domain(uint32_t on, uint32_t domain) noexcept;

  // CUPTI wants the calls for one subscriber to come one after the other.
  pthread_mutex_t lock_ = PTHREAD_MUTEX_INITIALIZER;
  PlaceFunctions functions_ = {};
  Subscriber subscriber_ = nullptr;
  Callback their_callback_ = nullptr, our_callback_ = nullptr;
  void *their_user_ = nullptr, *our_user_ = nullptr;
  std::atomic<bool> is_lent_{false};
  std::atomic<uint8_t> wants_[kDomains][kIds] = {};  // bits: theirs, ours
};

}  // namespace pilotlight::cupti
