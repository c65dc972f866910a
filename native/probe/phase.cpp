// native/probe/phase.cpp
#include "probe/phase.h"

#include <new>
#include <type_traits>

#include "probe/module.h"

namespace pilotlight {
namespace {

constexpr const char* kNames[] = {"data",      "forward",       "backward",
                                  "optimizer", "communication", "checkpoint"};
static_assert(sizeof(kNames) / sizeof(kNames[0]) == static_cast<size_t>(Phase::kCount));

// A few milliseconds: what has been over for as long is not kept from those who look on.
constexpr uint64_t kKeptTicks = 1 << 23;

// Not a thread_local object: every access would ask first whether it has been constructed.
__thread std::aligned_storage_t<sizeof(ThreadPhases), alignof(ThreadPhases)> thread_storage;

PILOTLIGHT_COLD uint32_t new_name(Phase phase) noexcept {
  uint32_t id = Probe::get().string(kNames[static_cast<size_t>(phase)]);
  return process.names[static_cast<size_t>(phase)] = id;
}

inline uint32_t name_of(Phase phase) noexcept {
  uint32_t id = process_phases().names[static_cast<size_t>(phase)];
  return __builtin_expect(id != 0, 1) ? id : new_name(phase);
}

void write_phase(RingWriter* ring, uint32_t name, uint64_t start_ticks, uint64_t ticks) noexcept {
  constexpr auto kKind = static_cast<uint8_t>(SpanKind::kPhase);
  write_span_at(ring, RecordType::kBegin, name, kKind, start_ticks);
  write_span_at(ring, RecordType::kEnd, name, kKind, start_ticks + ticks);
}

// Long ones, and those of a thread that tells no steps, are not kept.
PILOTLIGHT_COLD void tell_at_once(ThreadPhases& mine, RingWriter* ring, uint64_t ticks) noexcept {
  tell_phases(mine, ring);
  write_phase(ring, mine.since_name, mine.since_ticks, ticks - mine.since_ticks);
}

// Ends what is on top, or lets it go on.
inline void end_top(ThreadPhases& mine, RingWriter* ring, uint64_t ticks) noexcept {
  if (mine.since_ticks == 0) return;
  ring->end_phase();
  uint64_t oldest_ticks = mine.ended != 0 ? mine.pending[0].start_ticks : mine.since_ticks;
  bool is_kept = mine.tells_steps && mine.ended < ThreadPhases::kMostEnded &&
                 ticks - oldest_ticks < kKeptTicks;
  if (__builtin_expect(!is_kept, 0)) {
    tell_at_once(mine, ring, ticks);
  } else {
    mine.pending[mine.ended++] = {mine.since_ticks, static_cast<uint32_t>(ticks - mine.since_ticks),
                                  mine.since_name};
  }
  mine.since_ticks = 0;
}

inline void go_on(ThreadPhases& mine, RingWriter* ring, uint64_t ticks) noexcept {
  if (mine.depth == 0 || !Probe::get().collecting()) return;
  mine.since_ticks = ticks;
  mine.since_name = name_of(mine.open[mine.depth - 1]);
  ring->begin_phase(mine.since_name, ticks);
}

// Some have lost their end: somebody raised past it. Or another goes on below.
PILOTLIGHT_COLD void leave_deep(ThreadPhases& mine, RingWriter* ring, Phase phase,
                                uint64_t ticks) noexcept {
  Phase left;
  do {
    left = mine.open[--mine.depth];
    mine.mask = static_cast<uint8_t>(mine.mask & ~(1u << static_cast<uint32_t>(left)));
  } while (left != phase);
  go_on(mine, ring, ticks);
}

PILOTLIGHT_COLD void begin_data(ThreadPhases& mine, uint64_t ticks) noexcept {
  if (!mine.has_step && mine.first_ticks == 0) mine.first_ticks = ticks;
  mine.data_ticks = ticks;
}

// The thread ends: what it had kept is still its own to write.
void before_retire(RingWriter* ring) noexcept {
  ThreadPhases* mine = this_threads_phases;
  bool is_ours = mine != nullptr && mine->run == Probe::get().run_number();
  if (is_ours) tell_phases(*mine, ring);
}

}  // namespace

ProcessPhases process;
__thread ThreadPhases* this_threads_phases = nullptr;

PILOTLIGHT_COLD ThreadPhases& begin_phases() noexcept {
  Probe::before_retire = before_retire;
  this_threads_phases = new (&thread_storage) ThreadPhases{};
  this_threads_phases->run = Probe::get().run_number();
  this_threads_phases->ring = Probe::attached_place();
  return *this_threads_phases;
}

PILOTLIGHT_HOT RingWriter* ring_of(const ThreadPhases& mine) noexcept {
  RingWriter* ring = *mine.ring;
  return __builtin_expect(ring != nullptr, 1) ? ring : attach_by_python_name();
}

uint64_t now_ticks() noexcept {
  RingWriter* ring = python_ring();
  return ring != nullptr ? ticks_of(ring->clock()) : 0;
}

// Not inlined: code which is fetched once for all of a step's records costs less than copies which
// save the call.
PILOTLIGHT_HOT __attribute__((noinline)) void write_span_at(RingWriter* ring, RecordType type,
                                                            uint32_t name, uint8_t kind,
                                                            uint64_t ticks) noexcept {
  RecordHeader header = {};
  header.flags = kind;
  ring->write_at(type, name, header, ticks);
}

PILOTLIGHT_HOT bool enter_phase(ThreadPhases& mine, Phase phase) noexcept {
  RingWriter* ring = ring_of(mine);
  if (ring == nullptr || mine.has(phase) || mine.depth == ThreadPhases::kMost) return false;
  uint64_t ticks = ticks_of(ring->clock());
  if (phase == Phase::kData) begin_data(mine, ticks);
  end_top(mine, ring, ticks);
  mine.open[mine.depth++] = phase;
  mine.mask = static_cast<uint8_t>(mine.mask | 1u << static_cast<uint32_t>(phase));
  go_on(mine, ring, ticks);
  return true;
}

PILOTLIGHT_HOT void leave_phase(ThreadPhases& mine, Phase phase) noexcept {
  if (!mine.has(phase)) return;
  RingWriter* ring = ring_of(mine);
  if (ring == nullptr) return;
  uint64_t ticks = ticks_of(ring->clock());
  end_top(mine, ring, ticks);
  if (__builtin_expect(mine.depth != 1, 0)) return leave_deep(mine, ring, phase, ticks);
  mine.depth = mine.mask = 0;
}

PILOTLIGHT_HOT void tell_phases(ThreadPhases& mine, RingWriter* ring) noexcept {
  for (uint32_t i = 0; i < mine.ended; i++) {
    const ThreadPhases::Ended& each = mine.pending[i];
    write_phase(ring, each.name, each.start_ticks, each.ticks);
  }
  mine.ended = 0;
}

}  // namespace pilotlight
