// native/probe/step_rule.cpp
#include "probe/step_rule.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "probe/module.h"

namespace pilotlight {
namespace {

// A program that has an optimizer may evaluate for that many calls before it trains.
constexpr uint32_t kEvaluationPatience = 1024;
// A function that is called so often, or that has been called again for so long, is no preparation.
constexpr uint32_t kPreparationCalls = 8;
constexpr int64_t kPreparationNs = 2000000000;

// What not every step needs.
struct Steps {
  const ThreadPhases* holder = nullptr;  // whose held steps are
  const ThreadPhases* timed = nullptr;   // whose times are: the first thread's that needs them
  HeldSteps<kEvaluationPatience> held;
  Rhythm::Times times;
};
Steps steps;
alignas(64) Rounds rounds;

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

bool hold_step() noexcept {
  ThreadPhases& mine = thread_phases();
  if (steps.held.count == 0) steps.holder = &mine;
  return steps.holder == &mine && steps.held.add(now_ticks());
}

template <typename Held>
void write_held(const Held& held) noexcept {
  if (held.count == 0) return;
  tell_first_step(thread_phases());
  for (uint32_t i = 0; i < held.count; i++) write_automatic_step(nullptr, held.ticks[i]);
}

// Each of them was a step. Another thread's are left out: a step is written by its own.
void tell_held() noexcept {
  if (steps.holder == &thread_phases()) write_held(steps.held);
  steps.held.clear();
}

// A step of inference, unless a training begins: it waits for that, with so many others at most.
bool may_yet_train(ThreadPhases& mine, uint32_t most) noexcept {
  if (steps.held.count < most && hold_step()) return true;
  if (steps.holder == &mine) tell_held();
  mine.infers = true;
  return false;
}

// Modules that were called until now were no steps by themselves.
void begin_training() noexcept {
  if (process_phases().is_training) return;
  process.is_training = true;
  thread_phases().step_end_ticks = 0;
  steps.held.clear();
}

// A program that evaluates first begins its first step with the data of its training.
void note_evaluation(ThreadPhases& mine, bool may_train) noexcept {
  if (mine.evaluates && may_train && !process_phases().has_step) {
    mine.first_ticks = mine.data_ticks != 0 ? mine.data_ticks : now_ticks();
  }
  mine.evaluates = !may_train;
}

// A closure computes the gradients: no forward and no backward told before that a training begins.
PILOTLIGHT_COLD void begin_with_optimizer(ThreadPhases& mine) noexcept {
  note_evaluation(mine, true);
  begin_training();
}

// The first steps by rhythm may be those of a preparation: they wait until another takes over, and
// are none, or until it is sure. Only the main thread's: others may end before.
bool is_preparation(ThreadPhases& mine) noexcept {
  if (mine.rhythm_is_sure || getpid() != static_cast<pid_t>(syscall(SYS_gettid))) return false;
  int64_t now_ns = clock_ns(CLOCK_MONOTONIC_COARSE);
  if (steps.held.count == 0) mine.held_ns = now_ns;
  return steps.held.count < kPreparationCalls && now_ns - mine.held_ns < kPreparationNs;
}

void end_preparation(ThreadPhases& mine) noexcept {
  if (mine.rhythm_is_sure) return;
  mine.rhythm_is_sure = true;
  if (steps.holder == &mine) tell_held();
}

Rhythm::Times* times_of(const ThreadPhases& mine) noexcept {
  if (steps.timed == nullptr) steps.timed = &mine;
  return steps.timed == &mine ? &steps.times : nullptr;
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
  if (steps.holder == &mine) tell_held();
  if (mine.lead != nullptr && optimizer != mine.lead && optimizer != mine.follower) {
    mine.follower = optimizer;
    return true;
  }
  mine.lead = optimizer;
  mine.follower = nullptr;
  tell_step(mine);
  return true;
}

PILOTLIGHT_COLD void several_called(ThreadPhases& mine, const void* optimizer) noexcept {
  switch (rounds.called(optimizer)) {
    case Rounds::Call::kPart:
      return;
    case Rounds::Call::kTurn:
      hold_step();
      return;
    case Rounds::Call::kTurnsAreRounds:
      tell_held();
      return tell_step(mine);
    case Rounds::Call::kRound:
      steps.held.clear();
      return tell_step(mine);
  }
}

PILOTLIGHT_HOT void round_called(ThreadPhases& mine, const void* optimizer) noexcept {
  bool is_known = process_phases().stepper == &mine;
  if (__builtin_expect(!is_known, 0) && steps_by_itself(mine, optimizer)) return;
  if (rounds.is_alone(optimizer)) return tell_step(mine);
  several_called(mine, optimizer);
}

// Without any optimizer the program changes its parameters by itself, after each backward. An
// optimizer may still be made: the first steps wait for that.
PILOTLIGHT_COLD void step_by_hand() noexcept {
  if (!process.is_by_hand && steps.held.count < kRoundPatience && hold_step()) return;
  process.is_by_hand = true;
  tell_held();
  automatic_step();
}

}  // namespace

PILOTLIGHT_COLD void begin_run(uint32_t run) noexcept {
  // Kineto in a forked child goes on counting, too.
  uint64_t optimizer_calls = process.optimizer_calls;
  process = {};
  process.run = run;
  process.optimizer_calls = optimizer_calls;
  rounds.clear();
  steps.held.clear();
  steps.timed = nullptr;
}

void automatic_step() noexcept { tell_step(thread_phases()); }

void automatic_step(int64_t number) noexcept {
  ThreadPhases& mine = thread_phases();
  process_phases().has_step = mine.has_step = true;
  write_automatic_step(&number, 0);
}

void steps_are_told() noexcept { begin_training(); }

void module_called(const void* module, bool may_train) noexcept {
  ThreadPhases& mine = thread_phases();
  if (process_phases().is_training || mine.step_calls > 0) return;
  note_evaluation(mine, may_train);
  Rhythm::Call call = mine.rhythm.called(module, times_of(mine), now_ticks);
  if (call != Rhythm::Call::kOther) mine.step_end_ticks = 0;
  switch (call) {
    case Rhythm::Call::kOther:
      return;
    case Rhythm::Call::kFirst:
      return first_step(mine);
    case Rhythm::Call::kHeldAndBeat:
      if (mine.infers) return write_held(steps.times.other);
      [[fallthrough]];
    case Rhythm::Call::kBeat:
      if (!mine.infers && (may_train || !rounds.empty())) {
        uint32_t most = rounds.empty() ? kRoundPatience : kEvaluationPatience;
        if (may_yet_train(mine, most)) return;
      }
      mine.infers = true;
      return tell_step(mine);
  }
}

void function_called(const void* function) noexcept {
  ThreadPhases& mine = thread_phases();
  if (process_phases().is_training || mine.step_calls > 0) return;
  // Not of modules: one that is called more often than the first may be a part of each request.
  if (mine.rhythm.is_rare(function)) return;
  Rhythm::Call call = mine.rhythm.called(function, times_of(mine), now_ticks);
  if (call != Rhythm::Call::kOther) mine.step_end_ticks = 0;
  switch (call) {
    case Rhythm::Call::kOther:
      return;
    case Rhythm::Call::kFirst:
      return first_step(mine);
    case Rhythm::Call::kHeldAndBeat:
      if (!mine.rhythm_is_sure && steps.holder == &mine) steps.held.clear();
      mine.rhythm_is_sure = true;
      return write_held(steps.times.other);
    case Rhythm::Call::kBeat:
      if (is_preparation(mine) && hold_step()) return;
      end_preparation(mine);
      return tell_step(mine);
  }
}

PILOTLIGHT_COLD void forward_begins(ThreadPhases& mine) noexcept { first_step(mine); }

bool compiled_begins(ThreadPhases& mine, const void* function, bool may_train) noexcept {
  if (mine.mask != 0 || is_inside_backward(mine)) return false;
  if (!is_training()) {
    module_called(function, may_train);
  } else if (may_train) {
    first_step(mine);
  } else {
    return false;
  }
  return enter_phase(mine, Phase::kForward);
}

void step_call_begins(ThreadPhases& mine) noexcept {
  if (mine.step_calls++ > 0 || process_phases().is_training) return;
  mine.step_end_ticks = 0;
  if (!mine.infers && !rounds.empty()) {
    mine.evaluates = true;
    if (may_yet_train(mine, kEvaluationPatience)) return;
  }
  tell_step(mine);
}

void step_call_ends(ThreadPhases& mine) noexcept {
  if (mine.step_calls == 0 || --mine.step_calls > 0 || process_phases().is_training) return;
  step_ends();
}

void step_ends() noexcept { thread_phases().step_end_ticks = now_ticks(); }

PILOTLIGHT_HOT void backward_begins(ThreadPhases& mine) noexcept {
  begin_training();
  process.backwards++;
  first_step(mine);
}

PILOTLIGHT_HOT void backward_ends(bool has_gradients) noexcept {
  if (process_phases().backwards > 0) process.backwards--;
  if (process.backwards == 0 && has_gradients && rounds.empty()) step_by_hand();
}

bool is_inside_that_backward(ThreadPhases& mine) noexcept {
  return mine.has(Phase::kBackward) || !is_programs(mine);
}

PILOTLIGHT_HOT bool optimizer_begins(ThreadPhases& mine, const void* optimizer) noexcept {
  if (__builtin_expect(!process_phases().is_training, 0)) begin_with_optimizer(mine);
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
  if (process_phases().is_training && rounds.empty()) steps.held.clear();
  rounds.made(optimizer);
}

PILOTLIGHT_COLD void tell_last_held(ThreadPhases& mine) noexcept {
  if (process_phases().is_training) {
    if (rounds.are_rounds() || rounds.empty()) tell_held();
    return;
  }
  bool was_to_change = steps.timed == &mine && mine.rhythm.was_to_change();
  if (was_to_change && mine.held_ns != 0 && !mine.rhythm_is_sure) {
    steps.held.clear();
  } else {
    tell_held();
  }
  if (was_to_change) write_held(steps.times.other);
}

void last_steps() noexcept {
  ThreadPhases& mine = thread_phases();
  tell_last_held(mine);
  if (mine.step_end_ticks != 0) write_automatic_step(nullptr, mine.step_end_ticks);
}

uint64_t optimizer_calls() noexcept { return process_phases().optimizer_calls; }

}  // namespace pilotlight
