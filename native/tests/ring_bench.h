// native/tests/ring_bench.h: the loops that are timed, and the process that reads while they run.
#pragma once

#include <sched.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <csignal>
#include <vector>

#include "drain/ring_reader.h"
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

// One ring of a real segment, with a process of its own that reads as the agent does.
class LiveRing {
 public:
  LiveRing() {
    CHECK(segment_.create(nullptr));
    CHECK(segment_.take_ring(&ring_, 1, "bench"));
    reader_ = fork();
    // An agent's core is seldom the job's, and the farther away the dearer.
    stay_on(reader_ == 0 ? 1 : 0);
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
  // On the first or the second of the CPUs that we may use, if there are two.
  static void stay_on(int which) {
    cpu_set_t allowed, chosen;
    CHECK(sched_getaffinity(0, sizeof(allowed), &allowed) == 0);
    if (CPU_COUNT(&allowed) < 2) return;
    int cpu = 0;
    for (int left = which; !CPU_ISSET(cpu, &allowed) || left-- > 0;) cpu++;
    CPU_ZERO(&chosen);
    CPU_SET(cpu, &chosen);
    CHECK(sched_setaffinity(0, sizeof(chosen), &chosen) == 0);
  }

  [[noreturn]] static void read_forever(int fd) {
    SegmentView view;
    CHECK(view.open(fd) == nullptr);
    RingReader reader;
    reader.open(&view, 0);
    std::vector<char> scratch;
    while (getppid() != 1) {
      reader.read(scratch, [](const RecordHeader&, const char*) {});
      view.set_tail(0, reader.position());
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
