// native/nccl/events.cpp
#include "nccl/events.h"

#include "provider/brief_lock.h"

namespace pilotlight::nccl {
Event* Events::take(uint64_t type, Context* context) noexcept {
  Event* event = nullptr;
  {
    BriefLock lock(lock_);
    if (!lock) {
      event = nullptr;
    } else if (fresh_.load(std::memory_order_relaxed) < kMaxEvents) {
      event = &events_[fresh_.fetch_add(1, std::memory_order_release)];
    } else if (first_free_ != 0) {
      event = &events_[first_free_ - 1];
      first_free_ = event->next_free;
      if (first_free_ == 0) last_free_ = 0;
    }
  }
  if (event == nullptr) {
    lost_.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  event->type = type;
  event->context = context;
  event->parent.store(nullptr, std::memory_order_relaxed);
  event->parent_handle = 0;
  event->start_ns = 0;
  event->generation.fetch_add(1, std::memory_order_relaxed);
  event->open.store(1, std::memory_order_relaxed);
  event->to_come.store(0, std::memory_order_relaxed);
  event->first_ticks.store(UINT64_MAX, std::memory_order_relaxed);
  event->last_ticks.store(0, std::memory_order_relaxed);
  event->wait_ticks.store(0, std::memory_order_relaxed);
  event->waited_ticks.store(0, std::memory_order_relaxed);
  event->start_ticks = event->stop_ticks = event->sequence = 0;
  event->correlation.store(0, std::memory_order_relaxed);
  event->waits_since = 0;
  event->bytes = 0;
  event->name = event->dtype = event->group = event->run = event->rank = event->ranks = 0;
  event->stack = event->call_name = 0;
  event->phase.store(static_cast<uint32_t>(Phase::kOpen), std::memory_order_release);
  return event;
}

void Events::give_back(Event* event) noexcept {
  uint32_t number = static_cast<uint32_t>(event - events_);
  event->phase.store(static_cast<uint32_t>(Phase::kFree), std::memory_order_release);
  BriefLock lock(lock_);
  if (!lock) {
    // Its place is never taken again; better one less than a thread of NCCL's that waits.
    lost_.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  event->next_free = 0;
  if (last_free_ != 0) {
    events_[last_free_ - 1].next_free = number + 1;
  } else {
    first_free_ = number + 1;
  }
  last_free_ = number + 1;
}

void* Events::handle_of(const Event* event) const noexcept {
  uint64_t number = static_cast<uint64_t>(event - events_) + 1;
  uint64_t generation = event->generation.load(std::memory_order_relaxed);
  return reinterpret_cast<void*>(generation << 32 | number);
}

Event* Events::remembered(void* handle) noexcept {
  auto word = reinterpret_cast<uint64_t>(handle);
  auto number = static_cast<uint32_t>(word), generation = static_cast<uint32_t>(word >> 32);
  if (number == 0 || number > kMaxEvents) return nullptr;
  Event* event = &events_[number - 1];
  return event->generation.load(std::memory_order_acquire) == generation ? event : nullptr;
}

Event* Events::find(void* handle) noexcept {
  Event* event = remembered(handle);
  if (event == nullptr) return nullptr;
  uint32_t phase = event->phase.load(std::memory_order_acquire);
  return phase != static_cast<uint32_t>(Phase::kFree) ? event : nullptr;
}

}  // namespace pilotlight::nccl
