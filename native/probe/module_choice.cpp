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

struct Steps {
  uint32_t every = 1;  // a power of two
  uint32_t count = 0;  // since `every` was last thought over
  uint32_t with_spans = 0;
  int64_t cpu_ns = 0;  // then
  int64_t next_outputs_ns = 0;
  int64_t next_outputs_cpu_ns = 0;
};
Steps steps;

void tell_every() noexcept {
  RingWriter* ring = Probe::get().collecting() ? python_ring() : nullptr;
  if (ring == nullptr) return;
  Counter counter = {};
  counter.value = steps.every;
  ring->write(RecordType::kCounter, Probe::get().string("modules.every"), counter);
}

PILOTLIGHT_COLD void think_again() noexcept {
  int64_t cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  int64_t step_ns = (cpu_ns - steps.cpu_ns) / steps.count;
  uint32_t before = steps.every;
  if (steps.with_spans != 0) {
    int64_t cost_ns = kSpanCostNs * module_choice.calls / steps.with_spans;
    steps.every = 1;
    while (steps.every < kMostApart && cost_ns * kSpansRest > steps.every * step_ns) {
      steps.every *= 2;
    }
  }
  steps.count = steps.with_spans = module_choice.calls = 0;
  steps.cpu_ns = cpu_ns;
  if (steps.every != before) tell_every();
}

}  // namespace

ModuleChoice module_choice;

void tell_spans() noexcept {
  if (steps.every != 1) tell_every();
}

PILOTLIGHT_COLD void begin_choice(uint32_t run) noexcept {
  module_choice = {};
  module_choice.run = run;
  steps = {};
  steps.cpu_ns = clock_ns(CLOCK_PROCESS_CPUTIME_ID);
}

PILOTLIGHT_HOT void choose_spans() noexcept {
  ModuleChoice& chosen = chosen_modules();
  chosen.outermost = 0;
  steps.with_spans += chosen.spans;
  if (++steps.count >= kThinkAgainSteps) think_again();
  chosen.spans = (steps.count & (steps.every - 1)) == 0;
}

PILOTLIGHT_COLD void choose_outputs(int64_t now_ns) noexcept {
  ModuleChoice& chosen = chosen_modules();
  if (chosen.outputs_seen) {
    steps.next_outputs_ns = now_ns + kOutputsNs;
    steps.next_outputs_cpu_ns =
        clock_ns(CLOCK_PROCESS_CPUTIME_ID) + kOutputsRest * chosen.outputs_cost_ns;
    chosen.outputs_cost_ns = 0;
  }
  chosen.outputs_seen = chosen.outputs = false;
  if (now_ns < steps.next_outputs_ns || !Probe::get().collecting()) return;
  chosen.outputs = clock_ns(CLOCK_PROCESS_CPUTIME_ID) >= steps.next_outputs_cpu_ns;
  if (!chosen.outputs) steps.next_outputs_ns = now_ns + kAskAgainNs;
}

}  // namespace pilotlight
