// native/cuda/collector_exit.cpp: the collector when the process ends: what CUPTI still has is
// asked for, and what nobody comes to decode any more is counted.
#include <string.h>

#include <algorithm>

#include "cuda/collector.h"
#include "cuda/waiting.h"
#include "cuda/window_mark.h"

namespace pilotlight::cupti {
namespace {

constexpr int64_t kExitWaitNs = 400000000;
constexpr int64_t kStopWaitNs = 50000000;
constexpr timespec kNap = {0, 500000};
// No record of any version is longer.
constexpr size_t kMostRecordBytes = 256;

constexpr char kLostAtExit[] = "gpu/lost_at_exit";
constexpr char kBuffersLeft[] = "gpu/buffers_left";
constexpr char kExitUnsure[] = "gpu/exit_unsure";

}  // namespace

void Collector::prepare_exit() noexcept {
  // While there is room for names.
  for (const DecodeCounter& one : kDecodeCounters) api_->string(one.name, strlen(one.name));
  for (const char* name : {kLostAtExit, kBuffersLeft, kExitUnsure}) {
    api_->string(name, strlen(name));
  }
}

// On our thread.
void Collector::flush_for_exit() noexcept {
  int64_t deadline_ns = clock_ns(CLOCK_MONOTONIC) + kExitWaitNs * 3 / 4;
  pthread_mutex_lock(&lock_);
  if (holds_.load(std::memory_order_relaxed)) {
    if (window_ != WindowKind::kNone) api_->mark("gpu/window", 10, kMarkEnded);
    library_.flush(kFlushForced);
    if (method_ != nullptr) method_->sampler->stop();
  }
  pthread_mutex_unlock(&lock_);
  flushed_.store(true, std::memory_order_release);
  int64_t hurry_ns = deadline_ns - kExitWaitNs / 3;
  for (int64_t now = 0; (pool_.has_come_back() || decoding_.load()) && now < deadline_ns;) {
    nanosleep(&kNap, nullptr);
    now = clock_ns(CLOCK_MONOTONIC);
    if (now > hurry_ns) decoder_.hurry();
  }
  bool had_clock = has_clock_;
  second(clock_ns(CLOCK_MONOTONIC));
  if (!had_clock && has_clock_ && tier_ != kTierLaunches) {
    missing("no device records: the process ended before CUPTI told a time");
  }
  sem_post(&finished_);
}

void Collector::finish() noexcept {
  if (!has_threads_ || forked_.load(std::memory_order_relaxed)) return;
  finishing_.store(true, std::memory_order_release);
  sem_post(&wake_);
  // Never longer than this: an exit must not hang on a device that does not answer.
  wait_for(&finished_, kExitWaitNs);
  tell_exit();
}

// The records that came back and were not decoded. Counts those that CUPTI dropped meanwhile.
uint64_t Collector::left_at_exit() noexcept {
  // A CUPTI that did not answer is asked nothing more.
  bool may_ask = flushed_.load(std::memory_order_acquire);
  bool may_drop = may_ask && holds_.load(std::memory_order_relaxed);
  uint64_t left = may_ask ? decoder_.left() : 0;
  FullBuffer full = {};
  while (pool_.take_left(&full)) {
    left += may_ask ? decoder_.count(full) : full.valid_bytes / kMostRecordBytes;
    if (may_drop) decoder_.add_dropped(full);
  }
  // Where no buffer was left to CUPTI, none came back to tell of it.
  if (may_drop) decoder_.add_dropped({});
  return left;
}

// On the thread that ends the process, after our threads had their time.
void Collector::tell_exit() noexcept {
  RingWriter* ring = api_->ring();
  if (ring == nullptr) return;
  ring->use_reserve();
  decoder_.stop();
  for (int64_t waited = 0; decoding_.load() && waited < kStopWaitNs; waited += kNap.tv_nsec) {
    nanosleep(&kNap, nullptr);
  }
  bool unsure = decoding_.load() || !flushed_.load(std::memory_order_acquire);
  uint64_t left = left_at_exit();
  // All that says of a record that it is not in the recording: what was last said of it may have
  // found the ring full.
  auto tell = [this](const char* name, uint64_t value) {
    if (value != 0) count(name, static_cast<double>(value));
  };
  for (const DecodeCounter& one : kDecodeCounters) tell(one.name, decoder_.counts().*one.count);
  tell(kLostAtExit, left);
  tell(kBuffersLeft, pool_.out());
  tell(kExitUnsure, unsure ? 1 : 0);
}

}  // namespace pilotlight::cupti
