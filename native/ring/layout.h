// native/ring/layout.h: what lies where in a segment. docs/abi.md explains it.
//
//   header | agent pages | ring table | identity | arena | rings
//
// The producer writes everything but the agent pages; the agent maps everything read-only but
// those.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "ring/record.h"

namespace pilotlight {

constexpr uint32_t kPage = 4096;
constexpr uint32_t kLine = 64;
constexpr uint32_t kMaxRings = 64;
constexpr uint32_t kRingBytes = 256 * 1024;
constexpr uint32_t kIdentityBytes = 2 * kPage;
constexpr uint32_t kArenaBytes = 6 * 1024 * 1024;
constexpr uint32_t kReasonBytes = 192;

enum class ClockKind : uint32_t { kMonotonic = 0, kTsc = 1, kCntvct = 2 };

// One instant on the tick clock, CLOCK_MONOTONIC and CLOCK_REALTIME.
struct ClockPair {
  uint64_t ticks;
  int64_t monotonic_ns;
  int64_t realtime_ns;
};

// Where CPython keeps what a stack walk needs; enough to walk from another process.
enum PythonOffset : uint32_t {
  kRuntimeInterpretersHead,
  kInterpreterNext,
  kInterpreterThreadsHead,
  kThreadNext,
  kThreadFrame,     // 3.10: frame object; 3.11, 3.12: cframe; 3.13+: current frame
  kCframeCurrent,   // 3.11, 3.12
  kThreadNativeId,  // 0 where there is none (3.10)
  kThreadId,        // pthread_t
  kThreadChunk,     // data stack chunk; 0 where there is none (3.10)
  kChunkPrevious,
  kChunkSize,
  kChunkTop,
  kChunkData,
  kFrameCode,
  kFramePrevious,
  kFrameInstruction,
  kFrameOwner,  // 0 where there is none
  kCodeName,    // co_qualname where there is one, else co_name
  kCodeFile,
  kCodeFirstLine,
  kCodeLineTable,
  kCodeInstructions,
  kCodeSize,  // ob_size of the code object: number of code units; 0 on 3.10
  kUnicodeState,
  kUnicodeLength,
  kUnicodeAsciiData,
  kUnicodeCompactData,
  kBytesSize,
  kBytesData,
  kRuntimeGil,      // from _PyRuntime, 3.10, 3.11; 0 otherwise
  kInterpreterGil,  // pointer in the interpreter, 3.12+; 0 otherwise
  kGilLocked,
  kGilHolder,
  kGilCond,
  kGilMutex,
  kGilSwitches,  // counts changes of the holder
  kObjectType,
  kCodeTypeLow,  // address of PyCode_Type
  kCodeTypeHigh,
  kPthreadTid,  // in the C library's thread structure; 3.10 only
  kPythonOffsets
};
static_assert(kPythonOffsets <= 48);

struct PythonInfo {
  uint32_t version;  // PY_VERSION_HEX; 0: no Python, or one that cannot be walked
  uint32_t reserved;
  uint64_t runtime;  // address of _PyRuntime
  uint32_t offsets[48];
};
static_assert(sizeof(PythonInfo) == 208);

struct SegmentHeader {
  uint64_t magic;
  uint16_t abi_major;
  uint16_t abi_minor;
  uint32_t header_bytes;
  uint64_t segment_bytes;
  uint64_t features;
  uint32_t pid;  // in the producer's pid namespace
  uint32_t ring_count;
  uint64_t start_time;  // field 22 of /proc/PID/stat: with the pid it names a process
  uint8_t boot_id[16];
  uint8_t segment_id[16];
  uint32_t ring_bytes;  // a power of two
  uint32_t clock_kind;
  uint64_t agent_offset;
  uint64_t table_offset;
  uint64_t identity_offset;
  uint64_t identity_capacity;
  uint64_t arena_offset;
  uint64_t arena_bytes;
  uint64_t rings_offset;
  ClockPair clock_base;
  PythonInfo python;

  // Live state of the producer, from here on each on its own line.
  alignas(kLine) std::atomic<uint64_t> arena_head;  // bytes published
  alignas(kLine) std::atomic<uint32_t> identity_size;
  alignas(kLine) std::atomic<uint64_t> clock_sequence;  // odd while clock_now is being written
  ClockPair clock_now;
  alignas(kLine) std::atomic<uint64_t> drops_no_ring;  // records of threads that got no ring
  std::atomic<uint64_t> definitions_lost;              // the arena was full
  alignas(kLine) std::atomic<uint32_t> off;            // Off: what the probe turned off
  char off_reason[kReasonBytes];
};
static_assert(sizeof(SegmentHeader) <= kPage);
static_assert(offsetof(SegmentHeader, clock_base) == 144);
static_assert(offsetof(SegmentHeader, python) == 168);
static_assert(offsetof(SegmentHeader, arena_head) == 384);
static_assert(offsetof(SegmentHeader, identity_size) == 448);
static_assert(offsetof(SegmentHeader, clock_sequence) == 512);
static_assert(offsetof(SegmentHeader, drops_no_ring) == 576);
static_assert(offsetof(SegmentHeader, off) == 640);

enum class Off : uint32_t { kNothing = 0, kAll = 1, kSampling = 2 };

enum class RingState : uint32_t {
  kFree = 0,
  kActive = 1,
  kRetired = 2,  // its thread ended; another may take it over and go on at `head`
};

struct RingSlot {
  alignas(kLine) std::atomic<uint64_t> head;  // bytes ever published
  std::atomic<uint64_t> phase_ticks;          // when that began
  std::atomic<uint32_t> phase;                // the name of the phase under way; 0: none
  alignas(kLine) std::atomic<uint32_t> state;
  uint32_t generation;           // counts owners
  std::atomic<uint64_t> drops;   // records that found the ring full, ever
  std::atomic<uint64_t> nested;  // records tried inside a record (signal handler), ever
};
static_assert(sizeof(RingSlot) == 2 * kLine);

// First agent page.
struct AgentHeader {
  std::atomic<uint64_t> epoch;  // of the agent that may move the tails; 0: none yet
  std::atomic<uint64_t> pid;    // of that agent
};

// Second agent page: one line a ring.
struct RingTail {
  alignas(kLine) std::atomic<uint64_t> tail;  // bytes ever consumed
};
static_assert(sizeof(RingTail) == kLine);
static_assert(sizeof(RingTail) * kMaxRings == kPage);

constexpr uint64_t kAgentOffset = kPage;
constexpr uint64_t kTailsOffset = kAgentOffset + kPage;
constexpr uint64_t kTableOffset = kTailsOffset + kPage;
constexpr uint64_t kIdentityOffset = kTableOffset + sizeof(RingSlot) * kMaxRings;
constexpr uint64_t kArenaOffset = kIdentityOffset + kIdentityBytes;
constexpr uint64_t kRingsOffset = kArenaOffset + kArenaBytes;
constexpr uint64_t kSegmentBytes = kRingsOffset + uint64_t{kMaxRings} * kRingBytes;
static_assert(kIdentityOffset % kPage == 0 && kRingsOffset % kPage == 0);

static_assert(std::atomic<uint64_t>::is_always_lock_free);

}  // namespace pilotlight
