// native/drain/rows.h: the rows of a recording's tables as the drain makes them; docs/recording.md.
#pragma once

#include <cstdint>

namespace pilotlight {

enum SpanFlag : uint8_t { kSpanNeverClosed = 1 };
enum MarkKind : uint8_t {
  kMarkMark = 1,
  kMarkStarted = 2,
  kMarkExit = 3,
  kMarkForked = 4,
  kMarkOff = 5,
  kMarkPaused = 6,
  kMarkResumed = 7,
  kMarkDied = 8,
  kMarkEvent = 9,
};
enum GapReason : uint8_t {
  kGapFull = 1,
  kGapNoRing = 2,
  kGapNested = 3,
  kGapQuarantined = 4,
  kGapDefinitions = 5,
};

struct SpanRow {
  uint32_t thread, name;
  int64_t start_ns, duration_ns;
  uint8_t kind, flags;
};

struct SampleRow {
  uint32_t thread, stack;
  int64_t time_ns, weight_ns;
  uint8_t state, flags;
};

struct CounterRow {
  uint32_t thread, name;
  int64_t time_ns;
  double value;
};

struct MarkRow {
  uint32_t thread, name;
  int64_t time_ns, value;
  uint8_t kind;
};

struct GapRow {
  uint32_t ring;
  uint8_t reason;
  int64_t first_ns, last_ns;
  uint64_t count;
};

struct StepRow {
  uint32_t thread;
  int64_t step, start_ns, duration_ns;
};

struct SamplerRow {
  int64_t time_ns;
  uint32_t passes, taken, torn, skipped;
  int64_t cpu_ns, period_ns;
};

struct ActivityRow {
  uint32_t thread, name, track;
  uint8_t kind, flags;
  int64_t start_ns, duration_ns;
  uint64_t correlation;
  int64_t bytes;
  uint32_t stack, range;
  uint64_t detail;
};

struct LaunchRow {
  uint32_t thread, name;
  uint8_t kind, flags;
  int64_t start_ns, duration_ns;
  uint64_t correlation;
  uint32_t stack;
};

struct CollectiveRow {
  uint32_t thread, name, group, dtype, rank, world_size;
  uint8_t flags;
  int64_t start_ns, duration_ns, wait_ns, bytes;
  uint64_t sequence, correlation;
};

struct ThreadRow {
  uint32_t thread, name;
};

}  // namespace pilotlight
