// native/probe/module_choice.h: in which steps modules are told by name, and in which what they
// return is looked at. Needs the GIL.
//
// Modules are told in a program's first 64 steps and then in one of every n, drawn by chance, so
// that it takes about a thousandth of the process's CPU time; n is told as the counter
// "modules.every". Outputs are looked at in two of those steps a second at most and for no more CPU
// time than that: what follows in the backward costs about as much again.
#pragma once

#include <cstdint>

#include "probe/probe.h"

namespace pilotlight {

// In one line of the cache: every step needs it.
struct alignas(64) ModuleChoice {
  uint32_t run = 0;
  bool spans = true;  // for the step under way
  bool outputs = false;
  bool outputs_seen = false;
  uint32_t outermost = 0;       // calls from outside since the last step
  uint32_t calls = 0;           // that were told, since n was last thought over
  uint32_t every = 1;           // n, a power of two
  uint32_t steps = 0;           // since n was last thought over
  uint32_t with_spans = 0;      // of those
  uint32_t drawn = 0;           // which of n steps it is, by chance
  int64_t cpu_ns = 0;           // then
  int64_t outputs_cost_ns = 0;  // of the step
  int64_t next_outputs_ns = 0;
  int64_t next_outputs_cpu_ns = 0;
};

extern ModuleChoice module_choice;

// So many calls from outside without a step count as one: the program may only evaluate.
constexpr uint32_t kCallsOfAStep = 64;

void begin_choice(uint32_t run) noexcept;

inline ModuleChoice& chosen_modules() noexcept {
  uint32_t run = Probe::get().run_number();
  if (__builtin_expect(module_choice.run != run, 0)) begin_choice(run);
  return module_choice;
}

// A step is over: whether the modules of the next are told.
void choose_spans() noexcept;

// Says n again, for readers who have lost the last time.
void tell_spans() noexcept;

// After some steps: whether the next one's outputs are looked at.
void choose_outputs(int64_t now_ns) noexcept;

}  // namespace pilotlight
