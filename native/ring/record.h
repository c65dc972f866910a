// native/ring/record.h: the wire format between probe and agent. docs/abi.md explains it.
//
// This file and layout.h are the ABI. A change of meaning or layout raises kAbiMajor; a new record
// type, definition kind or header field at a reserved place raises kAbiMinor, and old readers skip
// it by its size.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pilotlight {

// "PILOTLT1" when read as little-endian bytes.
constexpr uint64_t kMagic = 0x31544c544f4c4950ull;
constexpr uint16_t kAbiMajor = 1;
constexpr uint16_t kAbiMinor = 2;

// Every record starts at a multiple of this, so a pad record always fits before the wrap.
constexpr uint32_t kRecordAlign = 16;
constexpr uint32_t kMaxRecordBytes = 4096;

enum class RecordType : uint8_t {
  kPad = 1,          // rest of the ring up to the wrap; no payload
  kGap = 2,          // Gap: records that found no room
  kThread = 3,       // Thread: from here on the ring's records come from this thread
  kBegin = 4,        // id = name, flags = SpanKind; a range opens
  kEnd = 5,          // id = name; the innermost open range with that name closes
  kMark = 6,         // Value: id = name; something happened, with a number
  kStep = 7,         // Value: a step begins here, value = its number
  kCounter = 8,      // Counter: id = name
  kSample = 9,       // Sample: id = stack
  kGc = 10,          // Gc: a collection that ended now
  kProcess = 11,     // Process: start, exit, fork, switched off
  kSampler = 12,     // SamplerStats: about once a second
  kEvent = 13,       // Event: two free 64-bit words
  kActivity = 14,    // Activity: id = name; work that ran elsewhere than on the writing thread
  kLaunch = 15,      // Launch: id = name of the API call; a call of this thread that starts work
  kCollective = 16,  // Collective: id = name of the operation
};

// What kind of range a Begin opens; 0 stands for kRange.
enum class SpanKind : uint8_t {
  kRange = 1,
  kGc = 2,  // by a Gc record only
  kPhase = 3,
  kModule = 4,
  kOperator = 5,
  kNvtx = 6,
  kLoader = 7,
  kCompile = 8,
  kCheckpoint = 9,
  kSync = 10,
};

// In the flags of an End, beside the kind: ranges that began later stay open. Push and pop of two
// NVTX domains need not nest.
constexpr uint8_t kEndAlone = 0x80;

enum class ActivityKind : uint8_t {
  kKernel = 1,
  kMemcpy = 2,
  kMemset = 3,
  kSynchronization = 4,
  kGraph = 5,
  kOverhead = 6,
  kAllocation = 7,
  kFree = 8,
  // Not work but what was sampled of a function in a window that begins then: bytes = samples,
  // range = why it stalled, detail = offset of the instruction with most of them, correlation =
  // CRC of its cubin.
  kPcSamples = 9,
  // Not work either but a value of a kernel that ran in a window that begins then: range = what it
  // is, detail = the bits of the number (a double), correlation = the same for all of this kernel.
  kKernelMetric = 10,
  // Nor this: an id that somebody pushed to CUPTI around a launch: id = whose, detail = the id,
  // correlation = of the work.
  kExternalId = 11,
};

// In the flags of an Activity: its detail is not of a graph but (ns from queued to submitted) << 32
// | (ns from submitted to its start), each at most 2^32 - 1.
constexpr uint8_t kActivityDelays = 1;

enum class ProcessMark : uint32_t {
  kStarted = 1,
  kExit = 2,    // orderly interpreter shutdown; id = name of the uncaught exception, or 0
  kForked = 3,  // value = 0; written by the parent
  kOff = 4,     // the probe turned itself off; id = reason
  kPaused = 5,  // collection paused on request (control group of an overhead measurement)
  kResumed = 6,
};

// What a thread was doing when it was sampled.
enum class ThreadState : uint8_t {
  kUnknown = 0,
  kRunning = 1,  // on a CPU or runnable
  kWaiting = 2,  // asleep in the kernel
  kGilWait = 3,  // asleep, waiting for the interpreter lock
  kDisk = 4,     // uninterruptible sleep
};

struct RecordHeader {
  uint16_t size;  // of the whole record, a multiple of kRecordAlign
  uint8_t type;
  uint8_t flags;
  uint32_t id;  // a definition, by type; 0 is none
  uint64_t ticks;
};

struct Gap {
  RecordHeader header;
  uint64_t count;
  uint64_t first_ticks;
  uint64_t last_ticks;
  uint64_t reserved;
};

struct Thread {
  RecordHeader header;  // id = thread name
  uint32_t tid;
  uint32_t reserved[3];
};

struct Value {
  RecordHeader header;
  int64_t value;
  uint64_t reserved;
};

struct Counter {
  RecordHeader header;
  double value;
  uint64_t reserved;
};

struct Sample {
  RecordHeader header;  // id = stack; ticks = when it was taken
  uint32_t tid;
  uint8_t state;  // ThreadState
  uint8_t flags;  // bit 0: stack cut at the depth limit; bit 1: same stack as before, not re-read
  uint16_t reserved;
  uint64_t weight_ns;  // how much time this sample stands for
};

struct Gc {
  RecordHeader header;
  uint32_t generation;
  uint32_t collected;
  uint64_t start_ticks;
};

struct Process {
  RecordHeader header;
  uint32_t mark;  // ProcessMark
  uint32_t reserved;
  int64_t value;
};

struct SamplerStats {
  RecordHeader header;
  uint32_t passes;     // rounds over all threads since the last such record
  uint32_t taken;      // samples written
  uint32_t torn;       // walks that failed a check and were dropped
  uint32_t skipped;    // passes left out to stay within the CPU ceiling
  uint64_t cpu_ns;     // CPU time of the probe's thread since the last such record
  uint64_t period_ns;  // in force now
};

struct Event {
  RecordHeader header;
  uint64_t words[2];
};

struct Activity {
  RecordHeader header;  // id = name; ticks = its start
  uint64_t duration_ticks;
  uint32_t track;
  uint32_t kind;         // ActivityKind
  uint64_t correlation;  // that of its Launch; 0: none
  int64_t bytes;
  uint32_t stack;   // where it was launched or captured; 0: not known
  uint32_t range;   // name of the innermost range there; 0: none
  uint64_t detail;  // graph id << 32 | node id
};

struct Launch {
  RecordHeader header;  // id = name of the API call; ticks = its start
  uint64_t duration_ticks;
  uint64_t correlation;
  uint32_t stack;
  uint32_t kind;  // ActivityKind of what it starts; 0: not known
  uint64_t reserved;
};

struct Collective {
  RecordHeader header;  // id = operation; ticks = its start; flag 1: asynchronous, 2: wait is known
  uint64_t duration_ticks;
  uint64_t wait_ticks;  // of it, for other ranks
  int64_t bytes;
  uint64_t sequence;  // the same on every rank of the group
  uint32_t group;     // string: communicator or process group
  uint32_t dtype;     // string
  uint32_t rank;
  uint32_t world_size;
  uint64_t correlation;
  uint64_t reserved;
};

static_assert(sizeof(RecordHeader) == 16);
static_assert(sizeof(Gap) == 48);
static_assert(sizeof(Thread) == 32);
static_assert(sizeof(Value) == 32);
static_assert(sizeof(Counter) == 32);
static_assert(sizeof(Sample) == 32);
static_assert(sizeof(Gc) == 32);
static_assert(sizeof(Process) == 32);
static_assert(sizeof(SamplerStats) == 48);
static_assert(sizeof(Event) == 32);
static_assert(sizeof(Activity) == 64);
static_assert(sizeof(Launch) == 48);
static_assert(sizeof(Collective) == 80);

// Definitions: an append-only arena of things that records name by id = offset / 8. An entry refers
// only to entries before it, so a reader can check it and no cycle can exist. Never ring records:
// a dropped definition would orphan its ids.
enum class DefinitionKind : uint8_t {
  kString = 1,
  kFrame = 2,  // Frame
  kStack = 3,  // Stack
  kTrack = 4,  // Track
};

constexpr uint32_t kDefinitionAlign = 8;
constexpr uint32_t kMaxStringBytes = 1024;
constexpr uint32_t kMaxStackDepth = 256;

struct DefinitionHeader {
  uint32_t size;  // of the whole entry, a multiple of kDefinitionAlign
  uint8_t kind;
  uint8_t unused;  // string: how many bytes at the end are padding
  uint16_t reserved;
};

struct Frame {
  DefinitionHeader header;
  uint32_t function;  // string
  uint32_t file;      // string
  uint32_t line;      // being executed; 0 if not known
  uint32_t first_line;
};

struct Stack {
  DefinitionHeader header;
  uint32_t parent;  // stack of the caller, 0 at the root
  uint32_t frame;
};

// Where activities run, one after the other.
enum class TrackKind : uint16_t {
  kStream = 1,
  kEngine = 2,  // a copy engine, or the device as a whole
  kGroup = 3,   // a group of ranks
};

struct Track {
  DefinitionHeader header;
  uint32_t name;  // string
  uint16_t kind;  // TrackKind
  uint16_t device;
  uint64_t stream;
};

static_assert(sizeof(DefinitionHeader) == 8);
static_assert(sizeof(Frame) == 24);
static_assert(sizeof(Stack) == 16);
static_assert(sizeof(Track) == 24);

}  // namespace pilotlight
