// native/ring/definitions.cpp
#include "ring/definitions.h"

#include <time.h>

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
  used_ = 0;
  // The first 8 bytes stay empty, so that id 0 is nothing.
  head_ = kDefinitionAlign;
  busy_.clear();
  header->arena_head.store(head_, std::memory_order_release);
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
  if (!lock()) {
    header_->definitions_lost.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  uint32_t slot = hash & (kTableSlots - 1);
  uint32_t id = 0;
  for (; table_[slot].id != 0; slot = (slot + 1) & (kTableSlots - 1)) {
    if (table_[slot].hash != hash) continue;
    DefinitionHeader entry;
    const char* place = arena_ + uint64_t{table_[slot].id} * kDefinitionAlign;
    std::memcpy(&entry, place, sizeof(entry));
    if (entry.kind == static_cast<uint8_t>(kind) &&
        entry.size - sizeof(entry) - entry.unused == bytes &&
        std::memcmp(place + sizeof(entry), payload, bytes) == 0) {
      id = table_[slot].id;
      break;
    }
  }
  if (id == 0) {
    id = append(kind, payload, bytes);
    // Past three quarters the table would slow down; new content is then defined again each time.
    if (id != 0 && used_ < kTableSlots / 4 * 3) {
      table_[slot] = {hash, id};
      used_++;
    }
  }
  busy_.clear(std::memory_order_release);
  return id;
}

uint32_t Definitions::append(DefinitionKind kind, const void* payload, uint32_t bytes) noexcept {
  uint32_t padded = (bytes + kDefinitionAlign - 1) & ~(kDefinitionAlign - 1);
  uint32_t size = padded + sizeof(DefinitionHeader);
  if (head_ + size > bytes_) {
    header_->definitions_lost.fetch_add(1, std::memory_order_relaxed);
    return 0;
  }
  DefinitionHeader entry = {size, static_cast<uint8_t>(kind), static_cast<uint8_t>(padded - bytes),
                            0};
  std::memcpy(arena_ + head_, &entry, sizeof(entry));
  std::memcpy(arena_ + head_ + sizeof(entry), payload, bytes);
  uint32_t id = static_cast<uint32_t>(head_ / kDefinitionAlign);
  head_ += size;
  // Publish: the entry, then the head. Records that use the id are published after this.
  header_->arena_head.store(head_, std::memory_order_release);
  return id;
}

bool Definitions::lock() noexcept {
  for (int spin = 0; spin < 200; spin++) {
    if (!busy_.test_and_set(std::memory_order_acquire)) return true;
  }
  // Its holder was preempted: lets it run, for two milliseconds or so at most.
  for (int pause = 0; pause < 20; pause++) {
    timespec time = {0, 50000};
    nanosleep(&time, nullptr);
    if (!busy_.test_and_set(std::memory_order_acquire)) return true;
  }
  return false;
}

}  // namespace pilotlight
