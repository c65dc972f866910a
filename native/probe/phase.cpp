// native/probe/phase.cpp
#include "probe/phase.h"

#include <atomic>

#include "probe/module.h"
#include "probe/probe.h"

namespace pilotlight {
namespace {

constexpr const char* kNames[] = {"data",      "forward",       "backward",
                                  "optimizer", "communication", "checkpoint"};
static_assert(sizeof(kNames) / sizeof(kNames[0]) == static_cast<size_t>(Phase::kCount));

// Of the process, under the GIL.
struct ProcessPhases {
  uint32_t run = 0;
  uint32_t names[static_cast<size_t>(Phase::kCount)] = {};
  Rounds rounds;
  bool is_training = false;
  bool has_step = false;
  int backwards = 0;
  uint64_t optimizer_calls = 0;
};

ProcessPhases process;
thread_local ThreadPhases thread;

ProcessPhases& process_phases() noexcept {
  uint32_t run = Probe::get().run_number();
  if (process.run != run) {
    process.run = run;
    for (uint32_t& name : process.names) name = 0;
    process.rounds.clear();
    process.is_training = process.has_step = false;
    process.backwards = 0;
  }
  return process;
}

uint32_t name_of(Phase phase) noexcept {
  uint32_t& id = process_phases().names[static_cast<size_t>(phase)];
  if (id == 0) id = Probe::get().string(kNames[static_cast<size_t>(phase)]);
  return id;
}

void write(RingWriter* ring, RecordType type, Phase phase, uint64_t ticks) noexcept {
  RecordHeader header = {};
  header.flags = static_cast<uint8_t>(SpanKind::kPhase);
  ring->write_at(type, name_of(phase), header, ticks);
}

// Ends what is on top, or lets it go on.
void interrupt(ThreadPhases& mine, RingWriter* ring, uint64_t ticks) noexcept {
  if (mine.depth == 0 || !mine.written[mine.depth - 1]) return;
  write(ring, RecordType::kEnd, mine.open[mine.depth - 1], ticks);
  mine.written[mine.depth - 1] = false;
}

void go_on(ThreadPhases& mine, RingWriter* ring, uint64_t ticks) noexcept {
  if (mine.depth == 0 || !Probe::get().collecting()) return;
  write(ring, RecordType::kBegin, mine.open[mine.depth - 1], ticks);
  mine.written[mine.depth - 1] = true;
}

void drop_top(ThreadPhases& mine) noexcept {
  mine.depth--;
  mine.mask &= ~(1u << static_cast<uint32_t>(mine.open[mine.depth]));
}

void first_step() noexcept {
  ThreadPhases& mine = thread_phases();
  if (process_phases().has_step || mine.first_ticks != 0) return;
  RingWriter* ring = python_ring();
  if (ring != nullptr) mine.first_ticks = ticks_of(ring->clock());
}

// The program may still tell its steps itself: the first is told when the second begins.
void tell_first_step() noexcept {
  ThreadPhases& mine = thread_phases();
  if (!process_phases().has_step && mine.first_ticks != 0) {
    write_automatic_step(nullptr, mine.first_ticks);
  }
  process.has_step = true;
}

}  // namespace

ThreadPhases& thread_phases() noexcept {
  uint32_t run = Probe::get().run_number();
  if (thread.run != run) {
    thread = ThreadPhases{};
    thread.run = run;
  }
  return thread;
}

bool enter_phase(Phase phase) noexcept {
  ThreadPhases& mine = thread_phases();
  RingWriter* ring = python_ring();
  if (ring == nullptr) return false;
  if (phase == Phase::kData) first_step();
  if (mine.has(phase) || mine.depth == ThreadPhases::kMost) return false;
  uint64_t ticks = ticks_of(ring->clock());
  interrupt(mine, ring, ticks);
  mine.open[mine.depth] = phase;
  mine.written[mine.depth] = false;
  mine.mask |= 1u << static_cast<uint32_t>(phase);
  mine.depth++;
  go_on(mine, ring, ticks);
  return true;
}

void leave_phase(Phase phase) noexcept {
  ThreadPhases& mine = thread_phases();
  if (!mine.has(phase)) return;
  RingWriter* ring = python_ring();
  if (ring == nullptr) return;
  uint64_t ticks = ticks_of(ring->clock());
  interrupt(mine, ring, ticks);
  // Those above have lost their end: somebody raised past it.
  while (mine.open[mine.depth - 1] != phase) drop_top(mine);
  drop_top(mine);
  go_on(mine, ring, ticks);
}

void automatic_step() noexcept {
  tell_first_step();
  write_automatic_step(nullptr, 0);
}

void automatic_step(int64_t number) noexcept {
  process_phases().has_step = true;
  write_automatic_step(&number, 0);
}

void steps_are_told() noexcept { process_phases().is_training = true; }

void module_called(const void* module, bool may_train) noexcept {
  ThreadPhases& mine = thread_phases();
  if (process_phases().is_training || mine.step_calls > 0) return;
  switch (mine.rhythm.called(module)) {
    case Rhythm::Call::kOther:
      return;
    case Rhythm::Call::kFirst:
      return first_step();
    case Rhythm::Call::kBeat:
      if (may_train && mine.held < kRoundPatience) {
        mine.held++;
        return;
      }
      return automatic_step();
  }
}

bool is_training() noexcept { return process_phases().is_training; }

void function_called(const void* function) noexcept {
  ThreadPhases& mine = thread_phases();
  if (process_phases().is_training || mine.step_calls > 0) return;
  switch (mine.rhythm.called(function)) {
    case Rhythm::Call::kOther:
      return;
    case Rhythm::Call::kFirst:
      return first_step();
    case Rhythm::Call::kBeat:
      return automatic_step();
  }
}

void step_call_begins() noexcept {
  if (!process_phases().is_training && thread_phases().step_calls == 0) automatic_step();
}

void backward_begins() noexcept {
  ProcessPhases& all = process_phases();
  all.is_training = true;
  all.backwards++;
  first_step();
}

void backward_ends() noexcept {
  if (process_phases().backwards > 0) process.backwards--;
}

bool backward_under_way() noexcept { return process_phases().backwards > 0; }

bool optimizer_begins(const void* optimizer) noexcept {
  ThreadPhases& mine = thread_phases();
  process_phases().is_training = true;
  process.optimizer_calls++;
  for (uint32_t i = 0; i < mine.optimizers; i++) {
    if (mine.optimizer[i] == optimizer) return false;
  }
  if (mine.optimizers == ThreadPhases::kMostOptimizers) return false;
  first_step();
  if (mine.optimizers == 0) enter_phase(Phase::kOptimizer);
  mine.optimizer[mine.optimizers++] = optimizer;
  return true;
}

void optimizer_ends(const void* optimizer, bool has_stepped) noexcept {
  ThreadPhases& mine = thread_phases();
  if (mine.optimizers > 0) mine.optimizers--;
  if (mine.optimizers == 0) leave_phase(Phase::kOptimizer);
  if (has_stepped && process_phases().rounds.called(optimizer)) automatic_step();
}

void optimizer_skipped(const void* optimizer) noexcept {
  process_phases().is_training = true;
  if (process.rounds.called(optimizer)) automatic_step();
}

uint64_t optimizer_calls() noexcept { return process_phases().optimizer_calls; }

}  // namespace pilotlight
