// native/probe/step_rule.h: when a step is over, from what a framework does. Needs the GIL.
#pragma once

#include "probe/phase.h"

namespace pilotlight {

// Steps that nobody called pilotlight.step() for. Nothing happens once somebody has.
void automatic_step() noexcept;
void automatic_step(int64_t number) noexcept;
// By something better than the rhythm of calls, from here on.
void steps_are_told() noexcept;

// What a step is told from. `may_train`: gradients are on, so a backward may follow.
void module_called(const void* module, bool may_train) noexcept;
inline bool is_training() noexcept { return process_phases().is_training; }
void function_called(const void* function) noexcept;
// In a thread without a step so far, though another trains already.
void forward_begins(ThreadPhases& mine) noexcept;
// A compiled function is called. False inside any phase, which it is a part of, and in a training
// without gradients: it may be anything then.
bool compiled_begins(ThreadPhases& mine, const void* function, bool may_train) noexcept;
void step_call_begins(ThreadPhases& mine) noexcept;
void step_call_ends(ThreadPhases& mine) noexcept;
// Here, if no other begins before the program ends: one that is told with its end, not by a rhythm.
void step_ends() noexcept;
void backward_begins(ThreadPhases& mine) noexcept;
// `has_gradients`: it did not raise. Where there is no optimizer, it ends a step.
void backward_ends(bool has_gradients) noexcept;
bool is_inside_that_backward(ThreadPhases& mine) noexcept;
// Of the program's own threads only in its own; autograd's may work for any.
inline bool is_inside_backward(ThreadPhases& mine) noexcept {
  return __builtin_expect(process_phases().backwards != 0, 0) && is_inside_that_backward(mine);
}
// False inside a step of the same optimizer: then there is nothing to end.
bool optimizer_begins(ThreadPhases& mine, const void* optimizer) noexcept;
void optimizer_ends(ThreadPhases& mine, const void* optimizer, bool has_stepped) noexcept;
// A gradient scaler found no use for the gradients: the step is over all the same.
void optimizer_skipped(const void* optimizer) noexcept;
uint64_t optimizer_calls() noexcept;
void optimizer_made(const void* optimizer) noexcept;
// At the end: steps of which it was not sure until now, and the end of the last.
void last_steps() noexcept;

}  // namespace pilotlight
