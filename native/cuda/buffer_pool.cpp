// native/cuda/buffer_pool.cpp
#include "cuda/buffer_pool.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

namespace pilotlight::cupti {

bool BufferPool::open() noexcept {
  if (memory_ != nullptr) return true;
  void* memory = mmap(nullptr, kBuffers * kBytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  memory_ = static_cast<uint8_t*>(memory);
  // Page faults now and here rather than later in a launch.
  for (size_t i = 0; i < kReady * kBytes; i += 4096) {
    static_cast<volatile uint8_t*>(memory_)[i] = 0;
  }
  return true;
}

void BufferPool::request(bool must_give, uint8_t** data, size_t* bytes) noexcept {
  *data = nullptr;
  *bytes = 0;
  if (is_closed() && !must_give) return;
  for (uint32_t i = 0; memory_ != nullptr && i < kBuffers; i++) {
    uint32_t expected = kFree;
    if (entries_[i].state.load(std::memory_order_relaxed) != kFree) continue;
    if (!entries_[i].state.compare_exchange_strong(expected, kOut, std::memory_order_acquire)) {
      continue;
    }
    *data = memory_ + i * kBytes;
    *bytes = kBytes;
    return;
  }
  exhausted_.fetch_add(1, std::memory_order_relaxed);
  if (!must_give) return;
  auto* overflow = static_cast<Overflow*>(calloc(1, sizeof(Overflow)));
  if (overflow == nullptr) return;
  for (auto& place : overflows_out_) {
    Overflow* nothing = nullptr;
    if (place.compare_exchange_strong(nothing, overflow)) {
      *data = overflow->data;
      *bytes = kOverflowBytes;
      return;
    }
  }
  free(overflow);
}

bool BufferPool::is_low() const noexcept {
  uint32_t left = 0;
  for (const Entry& entry : entries_) {
    if (entry.state.load(std::memory_order_relaxed) == kFree) left++;
  }
  return left < kBuffers / 4;
}

bool BufferPool::complete(void* context, uint32_t stream, uint8_t* data, size_t valid_bytes,
                          FullBuffer* away) noexcept {
  if (data >= memory_ && data < memory_ + kBuffers * kBytes) {
    Entry& entry = entries_[static_cast<size_t>(data - memory_) / kBytes];
    uint32_t expected = kOut;
    if (!entry.state.compare_exchange_strong(expected, kReturning)) return false;
    entry.stream = stream;
    entry.context = context;
    entry.valid_bytes = valid_bytes < kBytes ? valid_bytes : kBytes;
    entry.turn = turns_.fetch_add(1, std::memory_order_relaxed);
    entry.state.store(kFull, std::memory_order_release);
    return false;
  }
  auto* overflow = reinterpret_cast<Overflow*>(data - offsetof(Overflow, data));
  bool is_ours = false;
  for (auto& place : overflows_out_) {
    Overflow* expected = overflow;
    if (place.compare_exchange_strong(expected, nullptr)) {
      is_ours = true;
      break;
    }
  }
  if (!is_ours) return false;
  overflow->context = context;
  overflow->stream = stream;
  overflow->valid_bytes = valid_bytes < kOverflowBytes ? valid_bytes : kOverflowBytes;
  // A program that launches faster than we decode would fill the memory of its machine.
  if (waiting_.fetch_add(1, std::memory_order_relaxed) >= kMostWaiting) {
    *away = full_of(overflow);
    return true;
  }
  overflow->next = overflows_.load(std::memory_order_relaxed);
  while (!overflows_.compare_exchange_weak(overflow->next, overflow, std::memory_order_release)) {
  }
  return false;
}

FullBuffer BufferPool::full_of(Overflow* overflow) noexcept {
  return {overflow->data, overflow->valid_bytes, overflow->context, overflow->stream, kOverflow};
}

bool BufferPool::take_entry(FullBuffer* full) noexcept {
  while (true) {
    Entry* oldest = nullptr;
    for (Entry& entry : entries_) {
      if (entry.state.load(std::memory_order_acquire) != kFull) continue;
      if (oldest == nullptr || entry.turn < oldest->turn) oldest = &entry;
    }
    if (oldest == nullptr) return false;
    uint32_t expected = kFull;
    if (!oldest->state.compare_exchange_strong(expected, kTaken)) continue;
    auto place = static_cast<uint32_t>(oldest - entries_);
    *full = {memory_ + place * kBytes, oldest->valid_bytes, oldest->context, oldest->stream, place};
    return true;
  }
}

bool BufferPool::take(FullBuffer* full) noexcept {
  if (take_entry(full)) return true;
  // One reader only, so nothing can come back to the head between the two.
  Overflow* overflow = overflows_.load(std::memory_order_acquire);
  while (overflow != nullptr &&
         !overflows_.compare_exchange_weak(overflow, overflow->next, std::memory_order_acquire)) {
  }
  if (overflow == nullptr) return false;
  *full = full_of(overflow);
  return true;
}

bool BufferPool::take_left(FullBuffer* full) noexcept {
  if (take_entry(full)) return true;
  if (left_ == nullptr) left_ = overflows_.exchange(nullptr, std::memory_order_acquire);
  Overflow* overflow = left_;
  if (overflow == nullptr) return false;
  left_ = overflow->next;
  *full = full_of(overflow);
  return true;
}

void BufferPool::give_back(const FullBuffer& full) noexcept {
  if (full.place == kOverflow) {
    free(full.data - offsetof(Overflow, data));
    waiting_.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  memset(full.data, 0, full.valid_bytes);
  entries_[full.place].state.store(kFree, std::memory_order_release);
}

uint32_t BufferPool::out() const noexcept {
  uint32_t count = 0;
  for (const Entry& entry : entries_) {
    uint32_t state = entry.state.load(std::memory_order_relaxed);
    count += state == kOut || state == kReturning ? 1 : 0;
  }
  return count;
}

bool BufferPool::has_come_back() const noexcept {
  for (const Entry& entry : entries_) {
    uint32_t state = entry.state.load(std::memory_order_acquire);
    if (state != kFree && state != kOut) return true;
  }
  return overflows_.load(std::memory_order_acquire) != nullptr;
}

}  // namespace pilotlight::cupti
