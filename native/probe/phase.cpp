// native/probe/phase.cpp
#include "probe/phase.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <new>
#include <type_traits>

#include "probe/hot.h"
#include "probe/module.h"
#include "probe/probe.h"

namespace pilotlight {
namespace {

constexpr const char* kNames[] = {"data",      "forward",       "backward",
                                  "optimizer", "communication", "checkpoint"};
static_assert(sizeof(kNames) / sizeof(kNames[0]) == static_cast<size_t>(Phase::kCount));

// A program that has an optimizer may evaluate for that many calls before it trains.
constexpr uint32_t kEvaluationPatience = 1024;
// A function that is called so often, or that has been called again for so long, is no preparation.
constexpr uint32_t kPreparationCalls = 8;
constexpr int64_t kPreparationNs = 2000000000;

// Of the process, under the GIL. First what every call needs, in one line of the cache.
struct alignas(64) ProcessPhases {
  uint32_t run = 0;
  uint32_t names[static_cast<size_t>(Phase::kCount)] = {};
  bool is_training = false;
  bool is_by_hand = false;
  bool has_step = false;
  int backwards = 0;
  uint64_t optimizer_calls = 0;
  const ThreadPhases* stepper = nullptr;  // whose optimizers step; null where threads train alone
  const ThreadPhases* holder = nullptr;   // whose held steps are
  const ThreadPhases* timed = nullptr;    // whose times are: the first thread's that needs them
  bool stepper_is_programs = false;
  bool is_by_thread = false;
  HeldSteps<kEvaluationPatience> held;
  alignas(64) Rounds rounds;
  Rhythm::Times times;
};

ProcessPhases process;
// Not a thread_local object: every access would ask first whether it has been constructed. Of zeros
// the first access makes one.
__thread std::aligned_storage_t<sizeof(ThreadPhases), alignof(ThreadPhases)> thread_storage;

PILOTLIGHT_COLD void begin_run(uint32_t run) noexcept {
  process.run = run;
  for (uint32_t& name : process.names) name = 0;
  process.rounds.clear();
  process.held.clear();
  process.timed = process.stepper = nullptr;
  process.stepper_is_programs = process.is_by_thread = false;
  process.is_training = process.is_by_hand = process.has_step = false;
  process.backwards = 0;
}

PILOTLIGHT_COLD void begin_thread(ThreadPhases* thread, uint32_t run) noexcept {
  new (thread) ThreadPhases{};
  thread->run = run;
  thread->ring = Probe::attached_place();
}

inline ProcessPhases& process_phases() noexcept {
  uint32_t run = Probe::get().run_number();
  if (__builtin_expect(process.run != run, 0)) begin_run(run);
  return process;
}

inline RingWriter* ring_of(const ThreadPhases& mine) noexcept {
  RingWriter* ring = *mine.ring;
  return __builtin_expect(ring != nullptr, 1) ? ring : attach_by_python_name();
}

PILOTLIGHT_COLD uint32_t new_name(Phase phase) noexcept {
  return process.names[static_cast<size_t>(phase)] =
             Probe::get().string(kNames[static_cast<size_t>(phase)]);
}

uint32_t name_of(Phase phase) noexcept {
  uint32_t id = process_phases().names[static_cast<size_t>(phase)];
  return __builtin_expect(id != 0, 1) ? id : new_name(phase);
}

PILOTLIGHT_HOT __attribute__((noinline)) void write(RingWriter* ring, RecordType type, Phase phase,
                                                    uint64_t ticks) noexcept {
  write_span_at(ring, type, name_of(phase), static_cast<uint8_t>(SpanKind::kPhase), ticks);
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

PILOTLIGHT_COLD void begin_first_step(ThreadPhases& mine) noexcept {
  if (mine.first_ticks != 0) return;
  RingWriter* ring = ring_of(mine);
  if (ring != nullptr) mine.first_ticks = ticks_of(ring->clock());
}

inline void first_step(ThreadPhases& mine) noexcept {
  if (!mine.has_step) begin_first_step(mine);
}

PILOTLIGHT_COLD void end_first_step(ThreadPhases& mine) noexcept {
  if (mine.first_ticks != 0) write_automatic_step(nullptr, mine.first_ticks);
  process.has_step = mine.has_step = true;
}

// The program may still tell its steps itself: the first is told when the second begins.
inline void tell_first_step(ThreadPhases& mine) noexcept {
  if (!mine.has_step) end_first_step(mine);
}

PILOTLIGHT_HOT void tell_step(ThreadPhases& mine) noexcept {
  tell_first_step(mine);
  write_automatic_step(nullptr, 0);
}

uint64_t now_ticks() noexcept {
  RingWriter* ring = python_ring();
  return ring != nullptr ? ticks_of(ring->clock()) : 0;
}

bool hold_step() noexcept {
  ThreadPhases& mine = thread_phases();
  if (process_phases().held.count == 0) process.holder = &mine;
  return process.holder == &mine && process.held.add(now_ticks());
}

template <typename Held>
void write_held(const Held& held) noexcept {
  if (held.count == 0) return;
  tell_first_step(thread_phases());
  for (uint32_t i = 0; i < held.count; i++) write_automatic_step(nullptr, held.ticks[i]);
}

// Each of them was a step. Another thread's are left out: a step is written by its own.
void tell_held() noexcept {
  if (process_phases().holder == &thread_phases()) write_held(process.held);
  process.held.clear();
}

// Modules that were called until now were no steps by themselves.
void begin_training() noexcept {
  if (process_phases().is_training) return;
  process.is_training = true;
  process.held.clear();
}

// The first steps by rhythm may be those of a preparation: they wait until another takes over, and
// are none, or until it is sure. Only the main thread's: others may end before.
bool is_preparation(ThreadPhases& mine) noexcept {
  if (mine.rhythm_is_sure || getpid() != static_cast<pid_t>(syscall(SYS_gettid))) return false;
  int64_t now_ns = clock_ns(CLOCK_MONOTONIC_COARSE);
  if (process.held.count == 0) mine.held_ns = now_ns;
  return process.held.count < kPreparationCalls && now_ns - mine.held_ns < kPreparationNs;
}

void end_preparation(ThreadPhases& mine) noexcept {
  if (mine.rhythm_is_sure) return;
  mine.rhythm_is_sure = true;
  if (process.holder == &mine) tell_held();
}

Rhythm::Times* times_of(const ThreadPhases& mine) noexcept {
  if (process_phases().timed == nullptr) process.timed = &mine;
  return process.timed == &mine ? &process.times : nullptr;
}

// A program that evaluates first begins its first step with the data of its training.
void note_evaluation(ThreadPhases& mine, bool may_train) noexcept {
  if (mine.evaluates && may_train && !process_phases().has_step) {
    mine.first_ticks = mine.data_ticks != 0 ? mine.data_ticks : now_ticks();
  }
  mine.evaluates = !may_train;
}

PILOTLIGHT_COLD bool is_programs(ThreadPhases& mine) noexcept {
  if (!mine.origin_known) {
    mine.is_programs = is_programs_thread();
    mine.origin_known = true;
  }
  return mine.is_programs;
}

// Threads of the program's that each step optimizers train by themselves: their optimizers are no
// parts of one step. Where that is so, each step of a thread's first optimizer is one of its own;
// of another, once that has stepped twice without the first.
PILOTLIGHT_COLD bool steps_by_itself(ThreadPhases& mine, const void* optimizer) noexcept {
  if (!process.is_by_thread) {
    process.is_by_thread =
        process.stepper != nullptr && process.stepper_is_programs && is_programs(mine);
    process.stepper = process.is_by_thread ? nullptr : &mine;
    process.stepper_is_programs = is_programs(mine);
    if (!process.is_by_thread) return false;
  }
  if (process.holder == &mine) tell_held();
  if (mine.lead != nullptr && optimizer != mine.lead && optimizer != mine.follower) {
    mine.follower = optimizer;
    return true;
  }
  mine.lead = optimizer;
  mine.follower = nullptr;
  tell_step(mine);
  return true;
}

PILOTLIGHT_HOT void round_called(ThreadPhases& mine, const void* optimizer) noexcept {
  bool is_known = process_phases().stepper == &mine;
  if (__builtin_expect(!is_known, 0) && steps_by_itself(mine, optimizer)) return;
  switch (process.rounds.called(optimizer)) {
    case Rounds::Call::kPart:
      return;
    case Rounds::Call::kTurn:
      hold_step();
      return;
    case Rounds::Call::kTurnsAreRounds:
      tell_held();
      return tell_step(mine);
    case Rounds::Call::kRound:
      process.held.clear();
      return tell_step(mine);
  }
}

// Without any optimizer the program changes its parameters by itself, after each backward. An
// optimizer may still be made: the first steps wait for that.
PILOTLIGHT_COLD void step_by_hand() noexcept {
  if (!process.is_by_hand && process.held.count < kRoundPatience && hold_step()) return;
  process.is_by_hand = true;
  tell_held();
  automatic_step();
}

}  // namespace

// Not inlined: a step of a framework leaves little in the cache, so that code which is fetched once
// for all of a step's records costs less than copies which save the call.
PILOTLIGHT_HOT __attribute__((noinline)) void write_span_at(RingWriter* ring, RecordType type,
                                                            uint32_t name, uint8_t kind,
                                                            uint64_t ticks) noexcept {
  RecordHeader header = {};
  header.flags = kind;
  ring->write_at(type, name, header, ticks);
}

PILOTLIGHT_HOT ThreadPhases& current(ThreadPhases& mine) noexcept {
  uint32_t run = Probe::get().run_number();
  // Zeros are also of the run before the first start: they have no ring's place.
  if (__builtin_expect(mine.run != run || mine.ring == nullptr, 0)) begin_thread(&mine, run);
  return mine;
}

// Not inlined, and its address hidden: the compiler would look for it anew at every use.
PILOTLIGHT_HOT __attribute__((noinline)) ThreadPhases& thread_phases() noexcept {
  auto* thread = reinterpret_cast<ThreadPhases*>(&thread_storage);
  __asm__("" : "+r"(thread));
  return current(*thread);
}

PILOTLIGHT_HOT bool enter_phase(ThreadPhases& mine, Phase phase) noexcept {
  RingWriter* ring = ring_of(mine);
  if (ring == nullptr) return false;
  if (phase == Phase::kData) first_step(mine);
  if (mine.has(phase) || mine.depth == ThreadPhases::kMost) return false;
  uint64_t ticks = ticks_of(ring->clock());
  if (phase == Phase::kData) mine.data_ticks = ticks;
  interrupt(mine, ring, ticks);
  mine.open[mine.depth] = phase;
  mine.written[mine.depth] = false;
  mine.mask |= 1u << static_cast<uint32_t>(phase);
  mine.depth++;
  go_on(mine, ring, ticks);
  return true;
}

PILOTLIGHT_HOT void leave_phase(ThreadPhases& mine, Phase phase) noexcept {
  if (!mine.has(phase)) return;
  RingWriter* ring = ring_of(mine);
  if (ring == nullptr) return;
  uint64_t ticks = ticks_of(ring->clock());
  interrupt(mine, ring, ticks);
  // Those above have lost their end: somebody raised past it.
  while (mine.open[mine.depth - 1] != phase) drop_top(mine);
  drop_top(mine);
  go_on(mine, ring, ticks);
}

void automatic_step() noexcept { tell_step(thread_phases()); }

void automatic_step(int64_t number) noexcept {
  process_phases().has_step = thread_phases().has_step = true;
  write_automatic_step(&number, 0);
}

void steps_are_told() noexcept { begin_training(); }

void module_called(const void* module, bool may_train) noexcept {
  ThreadPhases& mine = thread_phases();
  if (process_phases().is_training || mine.step_calls > 0) return;
  note_evaluation(mine, may_train);
  switch (mine.rhythm.called(module, times_of(mine), now_ticks)) {
    case Rhythm::Call::kOther:
      return;
    case Rhythm::Call::kFirst:
      return first_step(mine);
    case Rhythm::Call::kHeldAndBeat:
      if (mine.infers) return write_held(process.times.other);
      [[fallthrough]];
    case Rhythm::Call::kBeat:
      if (!mine.infers && (may_train || !process.rounds.empty())) {
        uint32_t most = process.rounds.empty() ? kRoundPatience : kEvaluationPatience;
        if (process.held.count < most && hold_step()) return;
        if (process.holder == &mine) tell_held();
      }
      mine.infers = true;
      return tell_step(mine);
  }
}

PILOTLIGHT_HOT bool is_training() noexcept { return process_phases().is_training; }

void function_called(const void* function) noexcept {
  ThreadPhases& mine = thread_phases();
  if (process_phases().is_training || mine.step_calls > 0) return;
  // Not of modules: one that is called more often than the first may be a part of each request.
  if (mine.rhythm.is_rare(function)) return;
  switch (mine.rhythm.called(function, times_of(mine), now_ticks)) {
    case Rhythm::Call::kOther:
      return;
    case Rhythm::Call::kFirst:
      return first_step(mine);
    case Rhythm::Call::kHeldAndBeat:
      if (!mine.rhythm_is_sure && process.holder == &mine) process.held.clear();
      mine.rhythm_is_sure = true;
      return write_held(process.times.other);
    case Rhythm::Call::kBeat:
      if (is_preparation(mine) && hold_step()) return;
      end_preparation(mine);
      return tell_step(mine);
  }
}

void step_call_begins() noexcept {
  if (!process_phases().is_training && thread_phases().step_calls == 0) automatic_step();
}

PILOTLIGHT_HOT void backward_begins(ThreadPhases& mine) noexcept {
  begin_training();
  process.backwards++;
  first_step(mine);
}

PILOTLIGHT_HOT void backward_ends(bool has_gradients) noexcept {
  if (process_phases().backwards > 0) process.backwards--;
  if (process.backwards == 0 && has_gradients && process.rounds.empty()) step_by_hand();
}

PILOTLIGHT_HOT bool is_inside_backward(ThreadPhases& mine) noexcept {
  if (__builtin_expect(process_phases().backwards == 0, 1)) return false;
  return mine.has(Phase::kBackward) || !is_programs(mine);
}

PILOTLIGHT_HOT bool optimizer_begins(ThreadPhases& mine, const void* optimizer) noexcept {
  begin_training();
  process.optimizer_calls++;
  for (uint32_t i = 0; i < mine.optimizers; i++) {
    if (mine.optimizer[i] == optimizer) return false;
  }
  if (mine.optimizers == ThreadPhases::kMostOptimizers) return false;
  first_step(mine);
  if (mine.optimizers == 0) enter_phase(mine, Phase::kOptimizer);
  mine.optimizer[mine.optimizers++] = optimizer;
  return true;
}

PILOTLIGHT_HOT void optimizer_ends(ThreadPhases& mine, const void* optimizer,
                                   bool has_stepped) noexcept {
  if (mine.optimizers > 0) mine.optimizers--;
  if (mine.optimizers == 0) leave_phase(mine, Phase::kOptimizer);
  if (has_stepped) round_called(mine, optimizer);
}

void optimizer_skipped(const void* optimizer) noexcept {
  begin_training();
  round_called(thread_phases(), optimizer);
}

void optimizer_made(const void* optimizer) noexcept {
  // Backwards until now were the preparation of a training.
  if (process_phases().is_training && process.rounds.empty()) process.held.clear();
  process.rounds.made(optimizer);
}

void last_steps() noexcept {
  ThreadPhases& mine = thread_phases();
  if (process_phases().is_training) {
    if (process.rounds.are_rounds() || process.rounds.empty()) tell_held();
    return;
  }
  bool was_to_change = process.timed == &mine && mine.rhythm.was_to_change();
  if (was_to_change && mine.held_ns != 0 && !mine.rhythm_is_sure) {
    process.held.clear();
  } else {
    tell_held();
  }
  if (was_to_change) write_held(process.times.other);
}

uint64_t optimizer_calls() noexcept { return process_phases().optimizer_calls; }

}  // namespace pilotlight
