// native/ring/definitions.cpp
#include "ring/definitions.h"

#include <cstring>

namespace pilotlight {
namespace {

uint32_t hash_of(DefinitionKind kind, const void* payload, uint32_t bytes) noexcept {
  // FNV-1a, 64 bits folded to 32.
  uint64_t hash = 0xcbf29ce484222325ull ^ static_cast<uint8_t>(kind);
  auto* byte = static_cast<const unsigned char*>(payload);
  for (uint32_t i = 0; i < bytes; i++) hash = (hash ^ byte[i]) * 0x100000001b3ull;
  uint32_t folded = static_cast<uint32_t>(hash ^ (hash >> 32));
  return folded == 0 ? 1 : folded;
}

}  // namespace

void Definitions::open(SegmentHeader* header, char* arena, uint32_t bytes, Entry* table) noexcept {
  header_ = header;
  arena_ = arena;
  bytes_ = bytes;
  table_ = table;
  used_.store(0, std::memory_order_relaxed);
  // The first 8 bytes stay empty, so that id 0 is nothing.
  head_.store(kDefinitionAlign, std::memory_order_relaxed);
  header->arena_head.store(kDefinitionAlign, std::memory_order_release);
}

uint32_t Definitions::string(std::string_view text) noexcept {
  uint32_t bytes =
      text.size() < kMaxStringBytes ? static_cast<uint32_t>(text.size()) : kMaxStringBytes;
  return define(DefinitionKind::kString, text.data(), bytes);
}

uint32_t Definitions::frame(uint32_t function, uint32_t file, uint32_t line,
                            uint32_t first_line) noexcept {
  uint32_t payload[4] = {function, file, line, first_line};
  return define(DefinitionKind::kFrame, payload, sizeof(payload));
}

uint32_t Definitions::stack(uint32_t parent, uint32_t frame) noexcept {
  uint32_t payload[2] = {parent, frame};
  return define(DefinitionKind::kStack, payload, sizeof(payload));
}

uint32_t Definitions::track(uint32_t name, TrackKind kind, uint16_t device,
                            uint64_t stream) noexcept {
  Track track = {{}, name, static_cast<uint16_t>(kind), device, stream};
  return define(DefinitionKind::kTrack, &track.name, sizeof(track) - sizeof(track.header));
}

uint32_t Definitions::define(DefinitionKind kind, const void* payload, uint32_t bytes) noexcept {
  if (header_ == nullptr) return 0;
  uint32_t hash = hash_of(kind, payload, bytes);
  uint32_t mine = 0;
  for (uint32_t slot = hash & (kTableSlots - 1);; slot = (slot + 1) & (kTableSlots - 1)) {
    // Acquire: who finds an id finds the entry behind it, and passes that on with its own records.
    uint64_t known = table_[slot].load(std::memory_order_acquire);
    if (known == 0) {
      if (mine == 0) mine = append(kind, payload, bytes);
      // Past three quarters the table would slow down; new content is then defined again each time.
      if (mine == 0 || used_.load(std::memory_order_relaxed) >= kTableSlots / 4 * 3) return mine;
      uint64_t entry = uint64_t{hash} << 32 | mine;
      // Release: the entry is whole before its id can be found.
      if (table_[slot].compare_exchange_strong(known, entry, std::memory_order_release,
                                               std::memory_order_acquire)) {
        used_.fetch_add(1, std::memory_order_relaxed);
        return mine;
      }
    }
    auto id = static_cast<uint32_t>(known);
    // If another was faster with the same content, its id is the one; ours is never used.
    if (known >> 32 == hash && is_same(id, kind, payload, bytes)) return id;
  }
}

bool Definitions::is_same(uint32_t id, DefinitionKind kind, const void* payload,
                          uint32_t bytes) const noexcept {
  DefinitionHeader entry;
  const char* place = arena_ + uint64_t{id} * kDefinitionAlign;
  std::memcpy(&entry, place, sizeof(entry));
  return entry.kind == static_cast<uint8_t>(kind) &&
         entry.size - sizeof(entry) - entry.unused == bytes &&
         std::memcmp(place + sizeof(entry), payload, bytes) == 0;
}

// The id of a new entry, which nobody else knows yet.
uint32_t Definitions::append(DefinitionKind kind, const void* payload, uint32_t bytes) noexcept {
  uint32_t padded = (bytes + kDefinitionAlign - 1) & ~(kDefinitionAlign - 1);
  uint32_t size = padded + sizeof(DefinitionHeader);
  uint64_t from = head_.load(std::memory_order_relaxed);
  do {
    if (from + size > bytes_) {
      header_->definitions_lost.fetch_add(1, std::memory_order_relaxed);
      return 0;
    }
  } while (!head_.compare_exchange_weak(from, from + size, std::memory_order_relaxed));
  DefinitionHeader entry = {size, static_cast<uint8_t>(kind), static_cast<uint8_t>(padded - bytes),
                            0};
  std::memcpy(arena_ + from, &entry, sizeof(entry));
  std::memcpy(arena_ + from + sizeof(entry), payload, bytes);
  publish(from + size);
  return static_cast<uint32_t>(from / kDefinitionAlign);
}

// Below the published head there may be entries that are not whole yet, of threads that are on
// their way; nobody has their ids. A record that uses an id is published after this.
void Definitions::publish(uint64_t end) noexcept {
  uint64_t seen = header_->arena_head.load(std::memory_order_relaxed);
  while (seen < end && !header_->arena_head.compare_exchange_weak(
                           seen, end, std::memory_order_release, std::memory_order_relaxed)) {
  }
}

}  // namespace pilotlight
