// native/ring/definitions.h: the producer's half of the arena of strings, frames, stacks and
// tracks.
#pragma once

#include <atomic>
#include <cstdint>
#include <string_view>

#include "ring/layout.h"

namespace pilotlight {

// Any thread of the producer may define, and none ever waits for another. What cannot be defined
// because the arena is full gets id 0 and is counted.
class Definitions {
 public:
  // Hash of the content in the upper half, id in the lower; 0 is free. `table` is zeroed memory of
  // kTableSlots of them, owned by the caller.
  using Entry = std::atomic<uint64_t>;
  static constexpr uint32_t kTableSlots = 1 << 16;

  void open(SegmentHeader* header, char* arena, uint32_t bytes, Entry* table) noexcept;

  // The same content gives the same id as long as the table has room. Cut at kMaxStringBytes.
  uint32_t string(std::string_view text) noexcept;
  uint32_t frame(uint32_t function, uint32_t file, uint32_t line, uint32_t first_line) noexcept;
  uint32_t stack(uint32_t parent, uint32_t frame) noexcept;
  uint32_t track(uint32_t name, TrackKind kind, uint16_t device, uint64_t stream) noexcept;

 private:
  uint32_t define(DefinitionKind kind, const void* payload, uint32_t bytes) noexcept;
  uint32_t append(DefinitionKind kind, const void* payload, uint32_t bytes) noexcept;
  bool is_same(uint32_t id, DefinitionKind kind, const void* payload,
               uint32_t bytes) const noexcept;
  void publish(uint64_t end) noexcept;

  SegmentHeader* header_ = nullptr;
  char* arena_ = nullptr;
  uint32_t bytes_ = 0;
  Entry* table_ = nullptr;
  std::atomic<uint32_t> used_{0};
  // Up to here places were given away. The published one is for readers; no place is taken from it,
  // since others could have written it.
  std::atomic<uint64_t> head_{0};
};

}  // namespace pilotlight
