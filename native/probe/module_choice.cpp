// native/probe/module_choice.cpp
#include "probe/module_choice.h"

#include "probe/hot.h"
#include "probe/module.h"
#include "ring/clock.h"

namespace pilotlight {
namespace {

constexpr uint32_t kThinkAgainSteps = 64;
constexpr uint32_t kMostApart = 64;
// Begin and end of one module, measured in a step that leaves little of us in the cache.
constexpr int64_t kSpanCostNs = 400;
constexpr int64_t kSpansRest = 1000;
constexpr int64_t kOutputsNs = 500000000;
constexpr int64_t kOutputsRest = 2000;
constexpr int64_t kAskAgainNs = 50000000;

void tell_every() noexcept {
  RingWriter* ring = Probe::get().collecting() ? python_ring() : nullptr;
  if (ring == nullptr) return;
  Counter counter = {};
  counter.value = module_choice.every;
  ring->write(RecordType::kCounter, Probe::get().string("modules.every"), counter);
}

PILOTLIGHT_COLD void think_again() noexcept {
  int64_t cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  int64_t step_ns = (cpu_ns - module_choice.cpu_ns) / module_choice.steps;
  uint32_t before = module_choice.every;
  if (module_choice.with_spans != 0) {
    int64_t cost_ns = kSpanCostNs * module_choice.calls / module_choice.with_spans;
    module_choice.every = 1;
    while (module_choice.every < kMostApart &&
           cost_ns * kSpansRest > module_choice.every * step_ns) {
      module_choice.every *= 2;
    }
  }
  module_choice.steps = module_choice.with_spans = module_choice.calls = 0;
  module_choice.cpu_ns = cpu_ns;
  if (module_choice.every != before) tell_every();
}

}  // namespace

ModuleChoice module_choice;

void tell_spans() noexcept {
  if (module_choice.every != 1) tell_every();
}

PILOTLIGHT_COLD void begin_choice(uint32_t run) noexcept {
  module_choice = {};
  module_choice.run = run;
  module_choice.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

PILOTLIGHT_HOT void choose_spans() noexcept {
  ModuleChoice& chosen = chosen_modules();
  chosen.outermost = 0;
  module_choice.with_spans += chosen.spans;
  if (++module_choice.steps >= kThinkAgainSteps) think_again();
  // Not the first of each n: what a program does in every n-th step would be told always or never.
  uint32_t place = module_choice.steps & (module_choice.every - 1);
  if (place == 0) module_choice.drawn = module_choice.drawn * 1664525 + 1013904223;
  chosen.spans = place == ((module_choice.drawn >> 16) & (module_choice.every - 1));
}

PILOTLIGHT_COLD void choose_outputs(int64_t now_ns) noexcept {
  ModuleChoice& chosen = chosen_modules();
  if (chosen.outputs_seen) {
    module_choice.next_outputs_ns = now_ns + kOutputsNs;
    module_choice.next_outputs_cpu_ns =
        clock_ns(CLOCK_PROCESS_CPUTIME_ID) + kOutputsRest * chosen.outputs_cost_ns;
    chosen.outputs_cost_ns = 0;
  }
  chosen.outputs_seen = chosen.outputs = false;
  if (now_ns < module_choice.next_outputs_ns || !Probe::get().collecting()) return;
  chosen.outputs = clock_ns(CLOCK_PROCESS_CPUTIME_ID) >= module_choice.next_outputs_cpu_ns;
  if (!chosen.outputs) module_choice.next_outputs_ns = now_ns + kAskAgainNs;
}

}  // namespace pilotlight
