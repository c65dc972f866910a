// native/tests/ring_bench.h: the loops that are timed, and the process that reads while they run.
#pragma once

#include <sched.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include "ring/segment.h"
#include "ring_check.h"

namespace pilotlight {

// Half a ring: a batch never meets a full one once the reader has caught up.
constexpr uint32_t kBatch = kRingBytes / sizeof(Event) / 2;

template <typename Body>
double nanoseconds_each(uint32_t count, Body body) {
  int64_t start_ns = clock_ns(CLOCK_THREAD_CPUTIME_ID);
  for (uint32_t i = 0; i < count; i++) body(i);
  return static_cast<double>(clock_ns(CLOCK_THREAD_CPUTIME_ID) - start_ns) / count;
}

// What no tracer can go below: read the clock, store 32 bytes, in memory of the same size.
class Floor {
 public:
  Floor() : memory_(kRingBytes / sizeof(Event)) {}

  double batch_ns() {
    return nanoseconds_each(kBatch, [this](uint32_t i) {
      Event* place = &memory_[next_++ & (memory_.size() - 1)];
      place->header.size = sizeof(Event);
      place->header.type = static_cast<uint8_t>(RecordType::kEvent);
      place->header.flags = 0;
      place->header.id = 0;
      place->header.ticks = ticks_of(ClockKind::kTsc);
      place->words[0] = i;
      place->words[1] = i;
      asm volatile("" ::: "memory");
    });
  }

 private:
  std::vector<Event> memory_;
  uint64_t next_ = 0;
};

// One ring of a real segment, with a process of its own that copies every record out.
class LiveRing {
 public:
  LiveRing() {
    CHECK(segment_.create(nullptr));
    CHECK(segment_.take_ring(&ring_, 1, "bench"));
    reader_ = fork();
    if (reader_ == 0) read_forever(segment_.fd());
    CHECK(reader_ > 0);
  }
  ~LiveRing() {
    kill(reader_, SIGKILL);
    waitpid(reader_, nullptr, 0);
  }

  double batch_ns() {
    uint32_t refused = 0;
    double each_ns = nanoseconds_each(kBatch, [this, &refused](uint32_t i) {
      Event record = {};
      record.words[0] = i;
      record.words[1] = i;
      refused += !ring_.write(RecordType::kEvent, 0, record);
    });
    CHECK_EQUAL(refused, 0);
    auto* tail =
        reinterpret_cast<RingTail*>(reinterpret_cast<char*>(segment_.header()) + kTailsOffset);
    while (tail->tail.load(std::memory_order_acquire) != ring_.slot()->head.load()) sched_yield();
    return each_ns;
  }

 private:
  [[noreturn]] static void read_forever(int fd) {
    void* memory = mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    CHECK(memory != MAP_FAILED);
    char* base = static_cast<char*>(memory);
    auto* slot = reinterpret_cast<RingSlot*>(base + kTableOffset);
    auto* tail = reinterpret_cast<RingTail*>(base + kTailsOffset);
    std::vector<char> copy(kRingBytes);
    while (getppid() != 1) {
      uint64_t at = tail->tail.load(std::memory_order_relaxed);
      uint64_t head = slot->head.load(std::memory_order_acquire);
      for (; at < head; at += sizeof(Event)) {
        uint64_t place = at & (kRingBytes - 1);
        std::memcpy(&copy[place], base + kRingsOffset + place, sizeof(Event));
      }
      tail->tail.store(at, std::memory_order_release);
      timespec pause = {0, 1000000};
      nanosleep(&pause, nullptr);
    }
    _exit(0);
  }

  Segment segment_;
  RingWriter ring_;
  pid_t reader_ = -1;
};

}  // namespace pilotlight
