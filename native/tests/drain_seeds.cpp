// native/tests/drain_seeds.cpp: writes the seeds of the fuzzers, valid segments of every kind, made
// by the producer's own code: drain_seeds FOLDER
#include <functional>
#include <string>
#include <vector>

#include "drain_image.h"

namespace pilotlight {
namespace {

struct Producer {
  std::vector<uint8_t> memory = std::vector<uint8_t>(kImageBytes);
  std::vector<Definitions::Entry> table = std::vector<Definitions::Entry>(Definitions::kTableSlots);
  Definitions definitions;
  RingWriter rings[kImageRings];
  uint64_t ticks = 1000;

  char* base() { return reinterpret_cast<char*>(memory.data()); }
  SegmentHeader* header() { return reinterpret_cast<SegmentHeader*>(base()); }
  RingTail* tail(uint32_t ring) { return reinterpret_cast<RingTail*>(base() + 2 * kPage) + ring; }

  Producer() {
    describe_image(header());
    definitions.open(header(), base() + kImageArena, kPage, table.data());
    for (uint32_t i = 0; i < kImageRings; i++) open_ring(i);
  }

  void open_ring(uint32_t ring) {
    auto* slot = reinterpret_cast<RingSlot*>(base() + kImageTable) + ring;
    slot->state.store(static_cast<uint32_t>(RingState::kActive));
    rings[ring].open(slot, tail(ring), base() + kImageRingsOffset + ring * kImageRingBytes,
                     kImageRingBytes, ClockKind::kMonotonic);
    Thread thread = {};
    thread.tid = 100 + ring;
    write(ring, RecordType::kThread, definitions.string("thread"), thread);
  }

  template <typename T>
  bool write(uint32_t ring, RecordType type, uint32_t id, const T& record) {
    return rings[ring].write_at(type, id, record, ticks += 10);
  }

  void consume(uint32_t ring) { tail(ring)->tail.store(rings[ring].slot()->head.load()); }

  void save(const std::string& path, uint8_t flags, const std::vector<ImagePatch>& patches) {
    FILE* file = std::fopen(path.c_str(), "wb");
    CHECK(file != nullptr);
    ImageOptions options = {flags, {}};
    std::fwrite(&options, sizeof(options), 1, file);
    for (const ImagePart& part : kImageParts) {
      std::fwrite(base() + part.offset, 1, part.bytes, file);
    }
    std::fwrite(patches.data(), sizeof(ImagePatch), patches.size(), file);
    CHECK(std::fclose(file) == 0);
  }
};

void every_type(Producer& p) {
  uint32_t name = p.definitions.string("forward");
  uint32_t frame = p.definitions.frame(name, p.definitions.string("train.py"), 12, 10);
  uint32_t stack = p.definitions.stack(p.definitions.stack(0, frame), frame);
  p.write(0, RecordType::kProcess, 0, Process{{}, 1, 0, 0});
  p.write(0, RecordType::kStep, 0, Value{{}, 1, 0});
  p.write(0, RecordType::kBegin, name, RecordHeader{});
  p.write(0, RecordType::kMark, name, Value{{}, -7, 0});
  p.write(0, RecordType::kEnd, name, RecordHeader{});
  p.write(0, RecordType::kCounter, name, Counter{{}, 0.5, 0});
  p.write(0, RecordType::kEvent, name, Event{{}, {1, 2}});
  uint32_t track = p.definitions.track(name, TrackKind::kStream, 1, 7);
  p.write(0, RecordType::kLaunch, name, Launch{{}, 5, 77, stack, 1, 0});
  p.write(0, RecordType::kActivity, name, Activity{{}, 9, track, 1, 77, 64, stack, name, 3});
  p.write(0, RecordType::kCollective, name,
          Collective{{}, 9, 4, 1024, 12, name, name, 1, 2, 77, 0});
  p.write(0, RecordType::kGc, 0, Gc{{}, 2, 10, 990});
  p.write(0, RecordType::kStep, 0, Value{{}, 2, 0});
  p.write(1, RecordType::kSample, stack, Sample{{}, 100, 1, 0, 0, 10000000});
  p.write(1, RecordType::kSampler, 0, SamplerStats{{}, 1, 1, 0, 0, 1000, 10000000});
  p.write(0, RecordType::kProcess, name, Process{{}, 2, 0, 0});
}

void nested_ranges(Producer& p) {
  for (const char* text : {"a", "b", "c"}) {
    p.write(0, RecordType::kBegin, p.definitions.string(text), RecordHeader{});
  }
  for (const char* text : {"b", "z", "a"}) {
    p.write(0, RecordType::kEnd, p.definitions.string(text), RecordHeader{});
  }
}

void a_gap_and_a_wrap(Producer& p) {
  while (p.write(0, RecordType::kEvent, 0, Event{})) {
  }
  p.consume(0);
  for (int i = 0; i < 20; i++) p.write(0, RecordType::kSampler, 0, SamplerStats{});
}

void a_ring_taken_over(Producer& p) {
  p.write(0, RecordType::kBegin, p.definitions.string("open"), RecordHeader{});
  p.open_ring(0);
  p.write(0, RecordType::kStep, 0, Value{{}, 9, 0});
}

void a_full_arena(Producer& p) {
  for (int i = 0; i < 200; i++) {
    uint32_t id = p.definitions.string("a rather long name, number " + std::to_string(i));
    p.write(1, RecordType::kCounter, id, Counter{{}, 1.0 * i, 0});
  }
}

void an_unknown_record(Producer& p) {
  p.write(0, static_cast<RecordType>(200), 0, Gap{});
  p.write(0, RecordType::kEvent, 0, Event{});
}

void identity_and_off(Producer& p) {
  std::memcpy(p.base() + kImageIdentity, "{\"rank\": 3}", 11);
  p.header()->identity_size.store(11);
  p.header()->off.store(1);
  std::memcpy(p.header()->off_reason, "too slow", 8);
  p.header()->drops_no_ring.store(3);
  p.header()->definitions_lost.store(2);
}

}  // namespace
}  // namespace pilotlight

int main(int argc, char** argv) {
  using namespace pilotlight;
  CHECK(argc == 2);
  struct Seed {
    const char* name;
    void (*make)(Producer&);
    uint8_t flags;
  };
  const Seed seeds[] = {
      {"every_type", every_type, kImageThisBoot},
      {"every_type_unsealed", every_type, kImageUnsealed},
      {"nested_ranges", nested_ranges, 0},
      {"a_gap_and_a_wrap", a_gap_and_a_wrap, 0},
      {"a_ring_taken_over", a_ring_taken_over, kImageThisBoot},
      {"a_full_arena", a_full_arena, 0},
      {"an_unknown_record", an_unknown_record, 0},
      {"identity_and_off", identity_and_off, 0},
  };
  // Between the reads: the heads go on, a record changes, the arena shrinks.
  const std::vector<ImagePatch> patches = {
      {static_cast<uint32_t>(kImageTable), 8, 512},
      {static_cast<uint32_t>(kImageRingsOffset) + 320, 8, 0x40020},
      {offsetof(SegmentHeader, arena_head), 8, 16},
  };
  for (const Seed& seed : seeds) {
    Producer producer;
    seed.make(producer);
    producer.save(std::string(argv[1]) + "/" + seed.name, seed.flags, patches);
  }
}
