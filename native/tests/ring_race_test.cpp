// native/tests/ring_race_test.cpp: writers and the reader as threads over the same addresses, for
// ThreadSanitizer, which cannot see that two maps are the same memory. So mmap is wrapped: whoever
// maps a segment for reading gets the writers' own map.
#include <sys/mman.h>

#include <thread>

#include "drain/reader.h"
#include "ring/segment.h"
#include "ring_check.h"

namespace {

char* segment_base;

bool is_shared(const void* place) {
  auto* at = static_cast<const char*>(place);
  return at >= segment_base && at < segment_base + pilotlight::kSegmentBytes;
}

}  // namespace

extern "C" {

void* __real_mmap(void*, size_t, int, int, int, off_t);
int __real_munmap(void*, size_t);

void* __wrap_mmap(void* hint, size_t bytes, int protection, int flags, int fd, off_t offset) {
  if ((flags & MAP_SHARED) != 0 && segment_base != nullptr) return segment_base + offset;
  void* place = __real_mmap(hint, bytes, protection, flags, fd, offset);
  if ((flags & MAP_SHARED) != 0) segment_base = static_cast<char*>(place);
  return place;
}

int __wrap_munmap(void* place, size_t bytes) {
  return is_shared(place) ? 0 : __real_munmap(place, bytes);
}
}

namespace pilotlight {
namespace {

constexpr uint32_t kWriters = 2;
constexpr uint64_t kRecords = 100000;
constexpr uint64_t kLifetime = 500;  // records of one thread before it hands its ring back

uint64_t mix(uint64_t value) {
  value = (value ^ (value >> 31)) * 0x9e3779b97f4a7c15ull;
  return value ^ (value >> 29);
}

// A reader that spins would flush its own accesses out of the sanitizer's history.
void pause() {
  timespec time = {0, 50000};
  nanosleep(&time, nullptr);
}

struct Fixture {
  Segment segment;
  std::atomic<uint32_t> running{kWriters};
  std::atomic<uint64_t> refused{0};

  Fixture() {
    segment_base = nullptr;
    CHECK(segment.create(nullptr));
  }
  ~Fixture() {
    __real_munmap(segment_base, kSegmentBytes);
    segment.forget();
  }

  // Successive threads, each with a ring that the one before may have had.
  void write(uint32_t writer) {
    for (uint64_t first = 0; first < kRecords; first += kLifetime) {
      std::thread([&, first] { write_some(writer, first); }).join();
    }
    running.fetch_sub(1, std::memory_order_release);
  }

  void write_some(uint32_t writer, uint64_t first) {
    RingWriter ring;
    // A full retired ring is passed over, so one is always found in the end.
    while (!segment.take_ring(&ring, writer + 1, "writer")) sched_yield();
    for (uint64_t sequence = first; sequence < first + kLifetime;) {
      uint32_t name = segment.definitions().string("name " + std::to_string(sequence / 512));
      Event event = {};
      event.words[0] = sequence;
      event.words[1] = mix(sequence);
      if (ring.write(RecordType::kEvent, name, event)) {
        sequence++;
      } else {
        refused.fetch_add(1, std::memory_order_relaxed);
        sched_yield();
      }
    }
    segment.retire_ring(&ring);
  }
};

void every_record_arrives_whole_through_the_ring_reader() {
  Fixture fixture;
  SegmentView view;
  CHECK(view.open(fixture.segment.fd()) == nullptr);
  DefinitionReader definitions;
  definitions.open(&view);
  std::vector<RingReader> rings(kMaxRings);
  for (uint32_t i = 0; i < kMaxRings; i++) rings[i].open(&view, i);
  std::vector<std::thread> writers;
  for (uint32_t i = 0; i < kWriters; i++) writers.emplace_back([&, i] { fixture.write(i); });

  std::vector<char> scratch;
  uint32_t thread[kMaxRings] = {};
  uint64_t seen[kWriters + 1] = {}, told = 0;
  std::vector<uint64_t> count(kRecords);
  bool last = false;
  while (true) {
    for (uint32_t i = 0; i < kMaxRings; i++) {
      rings[i].read(scratch, [&](const RecordHeader& header, const char* bytes) {
        if (header.type == static_cast<uint8_t>(RecordType::kThread)) {
          Thread record;
          std::memcpy(&record, bytes, sizeof(record));
          thread[i] = record.tid;
        } else if (header.type == static_cast<uint8_t>(RecordType::kGap)) {
          Gap gap;
          std::memcpy(&gap, bytes, sizeof(gap));
          told += gap.count;
        } else {
          Event event;
          std::memcpy(&event, bytes, sizeof(event));
          CHECK(event.words[0] < kRecords);
          CHECK_EQUAL(event.words[1], mix(event.words[0]));
          count[event.words[0]]++;
          seen[thread[i]]++;
          std::string name;
          CHECK(definitions.string(header.id, &name));
          CHECK(name == "name " + std::to_string(event.words[0] / 512));
        }
      });
      CHECK(!rings[i].quarantined());
      view.set_tail(i, rings[i].position());
    }
    if (last) break;
    pause();
    last = fixture.running.load(std::memory_order_acquire) == 0;
  }
  for (auto& writer : writers) writer.join();
  for (uint32_t i = 1; i <= kWriters; i++) CHECK_EQUAL(seen[i], kRecords);
  for (uint64_t times : count) CHECK_EQUAL(times, kWriters);
  CHECK(told <= fixture.refused.load());
  CHECK_EQUAL(fixture.segment.header()->definitions_lost.load(), 0);
}

void the_whole_reader_accounts_for_every_record() {
  Fixture fixture;
  Reader reader;
  CHECK(reader.open(fixture.segment.fd(), 1) == nullptr);
  std::vector<std::thread> writers;
  for (uint32_t i = 0; i < kWriters; i++) writers.emplace_back([&, i] { fixture.write(i); });
  uint64_t rows = 0, gaps = 0;
  bool last = false;
  while (true) {
    if (last) {
      reader.finish(clock_ns(CLOCK_MONOTONIC));
    } else {
      reader.read();
    }
    Rows taken = reader.take();
    for (const MarkRow& mark : taken.marks) rows += mark.kind == kMarkEvent;
    for (const GapRow& gap : taken.gaps) gaps += gap.reason == kGapFull ? gap.count : 0;
    CHECK(reader.commit());
    if (last) break;
    pause();
    last = fixture.running.load(std::memory_order_acquire) == 0;
  }
  for (auto& writer : writers) writer.join();
  CHECK_EQUAL(rows, kWriters * kRecords);
  Losses losses = reader.losses();
  CHECK_EQUAL(gaps, losses.dropped);
  CHECK_EQUAL(losses.quarantined, 0);
  // Announcements that a full ring refused are dropped records too.
  CHECK(losses.dropped >= fixture.refused.load());
}

}  // namespace
}  // namespace pilotlight

int main(int argc, char** argv) {
  using namespace pilotlight;
  return run_tests({TEST(every_record_arrives_whole_through_the_ring_reader),
                    TEST(the_whole_reader_accounts_for_every_record)},
                   argc, argv);
}
