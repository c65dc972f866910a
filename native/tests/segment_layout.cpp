// native/tests/segment_layout.cpp: prints every struct of the ABI as the compiler sees it, a line a
// field: STRUCT FIELD OFFSET BYTES. docs/abi.md is checked against this.
#include <cstdio>

#include "ring/layout.h"
#include "ring/record.h"

#define STRUCT(type) std::printf("%s - 0 %zu\n", #type, sizeof(type))
#define FIELD(type, field) \
  std::printf("%s %s %zu %zu\n", #type, #field, offsetof(type, field), sizeof(type::field))

int main() {
  using namespace pilotlight;
  STRUCT(SegmentHeader);
  FIELD(SegmentHeader, magic);
  FIELD(SegmentHeader, abi_major);
  FIELD(SegmentHeader, abi_minor);
  FIELD(SegmentHeader, header_bytes);
  FIELD(SegmentHeader, segment_bytes);
  FIELD(SegmentHeader, features);
  FIELD(SegmentHeader, pid);
  FIELD(SegmentHeader, ring_count);
  FIELD(SegmentHeader, start_time);
  FIELD(SegmentHeader, boot_id);
  FIELD(SegmentHeader, segment_id);
  FIELD(SegmentHeader, ring_bytes);
  FIELD(SegmentHeader, clock_kind);
  FIELD(SegmentHeader, agent_offset);
  FIELD(SegmentHeader, table_offset);
  FIELD(SegmentHeader, identity_offset);
  FIELD(SegmentHeader, identity_capacity);
  FIELD(SegmentHeader, arena_offset);
  FIELD(SegmentHeader, arena_bytes);
  FIELD(SegmentHeader, rings_offset);
  FIELD(SegmentHeader, clock_base);
  FIELD(SegmentHeader, python);
  FIELD(SegmentHeader, arena_head);
  FIELD(SegmentHeader, identity_size);
  FIELD(SegmentHeader, clock_sequence);
  FIELD(SegmentHeader, clock_now);
  FIELD(SegmentHeader, drops_no_ring);
  FIELD(SegmentHeader, definitions_lost);
  FIELD(SegmentHeader, off);
  FIELD(SegmentHeader, off_reason);
  STRUCT(ClockPair);
  FIELD(ClockPair, ticks);
  FIELD(ClockPair, monotonic_ns);
  FIELD(ClockPair, realtime_ns);
  STRUCT(PythonInfo);
  FIELD(PythonInfo, version);
  FIELD(PythonInfo, reserved);
  FIELD(PythonInfo, runtime);
  FIELD(PythonInfo, offsets);
  STRUCT(AgentHeader);
  FIELD(AgentHeader, epoch);
  FIELD(AgentHeader, pid);
  STRUCT(RingTail);
  FIELD(RingTail, tail);
  STRUCT(RingSlot);
  FIELD(RingSlot, head);
  FIELD(RingSlot, state);
  FIELD(RingSlot, generation);
  FIELD(RingSlot, drops);
  FIELD(RingSlot, nested);
  STRUCT(RecordHeader);
  FIELD(RecordHeader, size);
  FIELD(RecordHeader, type);
  FIELD(RecordHeader, flags);
  FIELD(RecordHeader, id);
  FIELD(RecordHeader, ticks);
  STRUCT(Gap);
  FIELD(Gap, count);
  FIELD(Gap, first_ticks);
  FIELD(Gap, last_ticks);
  FIELD(Gap, reserved);
  STRUCT(Thread);
  FIELD(Thread, tid);
  FIELD(Thread, reserved);
  STRUCT(Value);
  FIELD(Value, value);
  FIELD(Value, reserved);
  STRUCT(Counter);
  FIELD(Counter, value);
  FIELD(Counter, reserved);
  STRUCT(Sample);
  FIELD(Sample, tid);
  FIELD(Sample, state);
  FIELD(Sample, flags);
  FIELD(Sample, reserved);
  FIELD(Sample, weight_ns);
  STRUCT(Gc);
  FIELD(Gc, generation);
  FIELD(Gc, collected);
  FIELD(Gc, start_ticks);
  STRUCT(Process);
  FIELD(Process, mark);
  FIELD(Process, reserved);
  FIELD(Process, value);
  STRUCT(SamplerStats);
  FIELD(SamplerStats, passes);
  FIELD(SamplerStats, taken);
  FIELD(SamplerStats, torn);
  FIELD(SamplerStats, skipped);
  FIELD(SamplerStats, cpu_ns);
  FIELD(SamplerStats, period_ns);
  STRUCT(Event);
  FIELD(Event, words);
  STRUCT(DefinitionHeader);
  FIELD(DefinitionHeader, size);
  FIELD(DefinitionHeader, kind);
  FIELD(DefinitionHeader, unused);
  FIELD(DefinitionHeader, reserved);
  STRUCT(Frame);
  FIELD(Frame, function);
  FIELD(Frame, file);
  FIELD(Frame, line);
  FIELD(Frame, first_line);
  STRUCT(Stack);
  FIELD(Stack, parent);
  FIELD(Stack, frame);
}
