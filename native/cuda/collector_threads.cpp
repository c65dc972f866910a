// native/cuda/collector_threads.cpp: the collector's two threads: one keeps the windows and what
// comes once a second, the other decodes.
#include <signal.h>

#include <algorithm>

#include "cuda/collector.h"
#include "cuda/waiting.h"

namespace pilotlight::cupti {
namespace {

// How long the decoder waits for the agent to make room before it believes that nobody reads.
constexpr int64_t kPatienceNs = 2 * kSecondNs;
// How soon after a pause collection goes on: at once, or within that share of its length.
constexpr int64_t kPausedNs = kSecondNs / 50, kPausedShare = 16;
// Of what is not used there is nothing. To make a kernel's name readable takes up to a third of it.
constexpr size_t kStackBytes = 1 << 20;

}  // namespace

bool Collector::start_thread(void* (*body)(void*) noexcept) noexcept {
  // Signals are the job's: none is ever delivered to our threads.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, kStackBytes);
  pthread_t thread;
  int error = pthread_create(&thread, &attributes, body, this);
  pthread_attr_destroy(&attributes);
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  return error == 0;
}

void* Collector::run(void* collector) noexcept {
  pthread_setname_np(pthread_self(), "pilotlight-gpu");
  static_cast<Collector*>(collector)->loop();
  return nullptr;
}

void* Collector::run_decoder(void* collector) noexcept {
  pthread_setname_np(pthread_self(), "pilotlight-read");
  auto* self = static_cast<Collector*>(collector);
  while (true) {
    while (sem_wait(&self->decode_) != 0) {
    }
    self->decoding_.store(true);
    self->decode_all();
    self->decoding_.store(false);
  }
  return nullptr;
}

void Collector::loop() noexcept {
  next_second_ns_ = clock_ns(CLOCK_MONOTONIC) + kSecondNs;
  while (true) {
    int64_t now = clock_ns(CLOCK_MONOTONIC);
    turn(now);
    if (finishing_.load(std::memory_order_acquire)) return flush_for_exit();
    now = clock_ns(CLOCK_MONOTONIC);
    if (now >= next_second_ns_) second(now);
    if (now >= next_try_ns_) try_clock(now);
    int64_t wake = std::min(next_second_ns_, next_try_ns_);
    if (window_ != WindowKind::kNone) wake = std::min(wake, window_end_ns_);
    // Nobody tells of the end of a pause; one that was long already may be for good.
    if (noticed_pause_.load(std::memory_order_relaxed)) {
      wake = std::min(wake, now + std::max(kPausedNs, (now - paused_since_ns_) / kPausedShare));
    }
    wait_for(&wake_, std::max<int64_t>(wake - now, 0));
  }
}

// CUPTI may have a time to tell only after CUDA has initialised itself: soon at first, so that a
// short job is recorded too.
void Collector::try_clock(int64_t now_ns) noexcept {
  next_try_ns_ = INT64_MAX;
  pthread_mutex_lock(&lock_);
  if (holds_.load(std::memory_order_relaxed) && !has_clock_) {
    if (prepare_records() == nullptr) {
      window_end_ns_ = now_ns;
    } else if (try_ns_ < kSecondNs) {
      next_try_ns_ = now_ns + try_ns_;
      try_ns_ *= 2;
    }
  }
  pthread_mutex_unlock(&lock_);
}

void Collector::decode_all() noexcept {
  FullBuffer full;
  while (!decoder_.is_stopped() && pool_.take(&full)) {
    RingWriter* ring = api_->ring();
    if (ring == nullptr) {
      decoder_.drop(full);
      pool_.give_back(full);
      continue;
    }
    if (ring->has_room(sizeof(pilotlight::Activity))) nobody_reads_ = false;
    uint64_t lost = decoder_.counts().ring_full;
    if (!decoder_.decode(full, ring, nobody_reads_ ? 0 : kPatienceNs)) return;
    pool_.give_back(full);
    // The rest is lost and counted, without waiting for each.
    if (decoder_.counts().ring_full != lost) nobody_reads_ = true;
  }
}

}  // namespace pilotlight::cupti
