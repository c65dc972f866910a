// native/tests/drain_mutator.h: mutations that keep an input a segment: one field gets a telling
// value. Without it nearly every mutation ends at the same few checks of the header.
#pragma once

#include <random>

#include "drain_image.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

namespace pilotlight {

class Mutator {
 public:
  Mutator(uint8_t* data, size_t size, unsigned seed) : data_(data), size_(size), random_(seed) {}

  void mutate() {
    switch (random_() % 8) {
      case 0:
        return change_header();
      case 1:
        // A tail of the agent's, where the producer can write too.
        return set(part(2), random_() % kImageRings * sizeof(RingTail), 8);
      case 2:
        return set(part(3), random_() % kImageRings * sizeof(RingSlot), 8);
      case 3:
        return change_definition();
      case 4:
      case 5:
        return change_record();
      default:
        return new_record();
    }
  }

 private:
  static size_t part(int index) {
    size_t offset = sizeof(ImageOptions);
    for (int i = 0; i < index; i++) offset += kImageParts[i].bytes;
    return offset;
  }

  uint64_t telling() {
    static constexpr uint64_t kTelling[] = {
        0,        1,          7,    8,          15,    16,         17,         32,
        48,       64,         4080, 4096,       4097,  8192,       kPage * 3,  kImageBytes,
        1u << 16, 1ull << 31, ~0u,  1ull << 32, ~0ull, ~0ull - 15, 1ull << 63, INT64_MAX};
    uint64_t value = kTelling[random_() % (sizeof(kTelling) / sizeof(*kTelling))];
    return random_() % 3 == 0 ? random_() : value + (random_() % 4 == 0 ? random_() % 64 : 0);
  }

  void put(size_t offset, const void* value, size_t bytes) {
    if (offset + bytes <= size_) std::memcpy(data_ + offset, value, bytes);
  }

  void set(size_t part_offset, size_t field, size_t bytes) {
    uint64_t value = telling();
    put(part_offset + field, &value, bytes);
  }

  void change_header() {
    // The fields that a reader goes by; the rest of the header now and then.
    static constexpr size_t kFields[][2] = {
        {offsetof(SegmentHeader, segment_bytes), 8},     {offsetof(SegmentHeader, ring_count), 4},
        {offsetof(SegmentHeader, ring_bytes), 4},        {offsetof(SegmentHeader, clock_kind), 4},
        {offsetof(SegmentHeader, agent_offset), 8},      {offsetof(SegmentHeader, table_offset), 8},
        {offsetof(SegmentHeader, identity_offset), 8},   {offsetof(SegmentHeader, arena_offset), 8},
        {offsetof(SegmentHeader, identity_capacity), 8}, {offsetof(SegmentHeader, arena_bytes), 8},
        {offsetof(SegmentHeader, rings_offset), 8},      {offsetof(SegmentHeader, arena_head), 8},
        {offsetof(SegmentHeader, identity_size), 4},     {offsetof(SegmentHeader, off), 4}};
    if (random_() % 8 == 0) return set(part(0), random_() % sizeof(SegmentHeader) / 8 * 8, 8);
    auto& field = kFields[random_() % (sizeof(kFields) / sizeof(*kFields))];
    set(part(0), field[0], field[1]);
  }

  void change_definition() {
    uint32_t entry[6] = {static_cast<uint32_t>(8 * (1 + random_() % 4)),
                         static_cast<uint32_t>(random_() % 5 | (random_() % 9) << 8),
                         static_cast<uint32_t>(random_() % 130),
                         static_cast<uint32_t>(random_() % 130),
                         static_cast<uint32_t>(telling()),
                         1};
    put(part(5) + random_() % 128 * 8, entry, random_() % 2 == 0 ? 8 : sizeof(entry));
  }

  size_t record_place() {
    return part(6) + random_() % (kImageRings * kImageRingBytes / kRecordAlign) * kRecordAlign;
  }

  void change_record() {
    // One field of what may be a header or a payload.
    static constexpr size_t kFields[][2] = {{0, 2}, {2, 1}, {3, 1}, {4, 4}, {8, 8}};
    auto& field = kFields[random_() % 5];
    uint64_t value = telling();
    put(record_place() + field[0], &value, field[1]);
  }

  void new_record() {
    uint64_t words[6];
    for (uint64_t& word : words) word = telling();
    uint64_t size = kRecordAlign * (1 + random_() % 3);
    words[0] = size | (1 + random_() % 14) << 16 | (random_() % 130) << 32;
    put(record_place(), words, size);
  }

  uint8_t* data_;
  size_t size_;
  std::minstd_rand random_;
};

}  // namespace pilotlight

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned seed) {
  if (seed % 4 == 0) return LLVMFuzzerMutate(data, size, max_size);
  pilotlight::Mutator mutator(data, size, seed / 4);
  for (unsigned i = 0; i <= seed / 4 % 3; i++) mutator.mutate();
  return size;
}
