// native/tests/ring_memory.h: one ring in plain memory with guard bytes around it, and a walk over
// it that shares no code with the reader under test.
#pragma once

#include <cstdint>
#include <vector>

#include "ring/ring.h"
#include "ring_check.h"

namespace pilotlight {

template <uint32_t kBytes>
struct RingMemory {
  RingSlot slot = {};
  RingTail tail = {};
  alignas(kLine) unsigned char before[kLine];
  alignas(kLine) char data[kBytes];
  alignas(kLine) unsigned char after[kLine];

  RingMemory() {
    std::memset(before, 0xA5, sizeof(before));
    std::memset(data, 0x5A, sizeof(data));
    std::memset(after, 0xA5, sizeof(after));
  }

  RingWriter writer() {
    RingWriter made;
    made.open(&slot, &tail, data, kBytes, ClockKind::kMonotonic);
    return made;
  }

  void check_guards() const {
    for (unsigned char byte : before) CHECK_EQUAL(byte, 0xA5);
    for (unsigned char byte : after) CHECK_EQUAL(byte, 0xA5);
  }

  uint64_t head() const { return slot.head.load(std::memory_order_acquire); }

  // What lies at position `at`; `at` moves past it.
  std::vector<char> take(uint64_t* at) const {
    const char* place = data + (*at & (kBytes - 1));
    RecordHeader header;
    std::memcpy(&header, place, sizeof(header));
    CHECK(header.size >= sizeof(header) && header.size % kRecordAlign == 0);
    CHECK((*at & (kBytes - 1)) + header.size <= kBytes);
    *at += header.size;
    return std::vector<char>(place, place + header.size);
  }

  // All that is published and not consumed, consumed.
  std::vector<std::vector<char>> drain() {
    std::vector<std::vector<char>> records;
    uint64_t at = tail.tail.load(std::memory_order_relaxed);
    uint64_t end = head();
    CHECK(end - at <= kBytes);
    while (at < end) records.push_back(take(&at));
    CHECK_EQUAL(at, end);
    tail.tail.store(at, std::memory_order_release);
    return records;
  }
};

template <typename T>
T as(const std::vector<char>& bytes) {
  T record;
  CHECK_EQUAL(bytes.size(), sizeof(T));
  std::memcpy(&record, bytes.data(), sizeof(T));
  return record;
}

inline RecordType type_of(const std::vector<char>& bytes) {
  return static_cast<RecordType>(static_cast<uint8_t>(bytes[offsetof(RecordHeader, type)]));
}

inline Event event(uint64_t first, uint64_t second) {
  Event made = {};
  made.words[0] = first;
  made.words[1] = second;
  return made;
}

inline bool write_event(RingWriter* writer, uint64_t first, uint64_t ticks) {
  return writer->write_at(RecordType::kEvent, 0, event(first, ~first), ticks);
}

}  // namespace pilotlight
