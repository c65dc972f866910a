// native/tests/drain_live_fuzz.cpp: the reader on any segment while a thread keeps writing into it.
#include <atomic>
#include <random>
#include <thread>

#include "drain_exercise.h"
#include "drain_image.h"
#include "drain_mutator.h"

namespace {

// Writes where it hurts (heads, sizes, types, definitions) until told to stop. The stores race with
// the reader on purpose; they are single words, as a hostile producer's would be.
void vandalise(char* base, unsigned seed, const std::atomic<bool>& stop) {
  using namespace pilotlight;
  std::minstd_rand random(seed);
  auto store = [base](uint64_t offset, uint64_t value) {
    __atomic_store_n(reinterpret_cast<uint64_t*>(base + offset), value, __ATOMIC_RELAXED);
  };
  while (!stop.load(std::memory_order_relaxed)) {
    uint64_t value = random();
    switch (random() % 4) {
      case 0:
        store(kImageTable + random() % kImageRings * sizeof(RingSlot), value % 300 * kRecordAlign);
        break;
      case 1:
        store(offsetof(SegmentHeader, arena_head), value % 1100);
        break;
      case 2:
        store(kImageArena + random() % 128 * 8, value % 64 | (value >> 8 & 3) << 32);
        break;
      default:
        store(kImageRingsOffset + random() % (kImageRings * kImageRingBytes / 8) * 8,
              (value % 5) * kRecordAlign | (value >> 8 & 15) << 16 | (value >> 12 & 127) << 32);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace pilotlight;
  Image image(data, size);
  Exercise exercise;
  if (!exercise.open(image.fd())) return 0;
  std::atomic<bool> stop{false};
  std::thread vandal([&] { vandalise(image.base(), size > 0 ? data[size / 2] : 1, stop); });
  for (int round = 0; round < 8; round++) {
    exercise.read();
    exercise.ask();
    exercise.take();
    exercise.take_windows(0);
  }
  exercise.hand_over(image.fd(), 0x10);
  exercise.finish(1);
  stop.store(true);
  vandal.join();
  return 0;
}
