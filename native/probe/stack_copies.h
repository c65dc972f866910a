// native/probe/stack_copies.h: what a walker has copied of a process, private to its files.
#pragma once

#include "probe/stack_walk.h"

namespace pilotlight {

constexpr uint32_t kMaxThreadBytes = 1024;
constexpr uint32_t kMaxFrameBytes = 128;
constexpr uint32_t kCframeBytes = 16;
constexpr uint32_t kMaxGilBytes = 128;
constexpr uint32_t kListedBytes = 16;

// What one walk asked for in advance. Its parts lie one behind the other in `bytes`.
struct StackWalker::Fetched {
  uint64_t address;  // of the thread; 0: could not be read
  uint64_t cframe_address[WalkHint::kCframes];
  uint64_t chunk_from;
  uint32_t chunk_bytes;
  uint32_t strays;
  uint64_t stray_address[WalkHint::kMaxStrays];
  unsigned char* own;                // room for them
  const unsigned char* bytes;        // where they are: there, or where the system call left them
  const unsigned char* thread_copy;  // of the listing; null: it is the first part
  uint32_t total;
  uint32_t cframe_at[WalkHint::kCframes];
  uint32_t chunk_at;
  uint32_t stray_at;

  const unsigned char* thread() const noexcept {
    return thread_copy != nullptr ? thread_copy : bytes;
  }
};

// Private copies. Nothing in them is believed but that it was there once.
struct StackWalker::Copies {
  static constexpr uint32_t kChunkBytes = 64 * 1024;
  static constexpr uint32_t kMaxChunks = 4;

  struct Chunk {
    uint64_t from;
    uint32_t bytes;
    unsigned char data[kChunkBytes];
  };
  struct Stray {
    uint64_t address;
    unsigned char data[kMaxFrameBytes];
  };
  static constexpr uint32_t kMaxFetchBytes = kMaxThreadBytes + WalkHint::kCframes * kCframeBytes +
                                             WalkHint::kMaxChunkBytes +
                                             WalkHint::kMaxStrays * kMaxFrameBytes;

  const Fetched* fetched_now;
  uint64_t chunk;  // the newest chunk of the thread, 0: there is no data stack
  uint32_t chunks;
  uint32_t strays;
  Chunk chunk_copy[kMaxChunks];
  Stray stray[kMaxNodes];
  Fetched fetched[kMaxFetched];
  unsigned char known[kMaxKnown][kMaxThreadBytes];
  unsigned char
      own[kMaxGuessed * kListedBytes + kMaxFetched * kMaxFetchBytes + kMaxMoreBytes + kMaxGilBytes];
};

}  // namespace pilotlight
