// native/probe/phase.h: what a thread's step is doing, told by the frameworks' adapters.
//
// The phases of a thread never overlap: one that begins inside another interrupts it, so that
// their sums add up to the step. Needs the GIL.
#pragma once

#include <cstdint>

#include "probe/rhythm.h"
#include "ring/ring.h"

typedef struct _object PyObject;

namespace pilotlight {

class RingWriter;

enum class Phase : uint8_t {
  kData,
  kForward,
  kBackward,
  kOptimizer,
  kCommunication,
  kCheckpoint,
  kCount
};

// Of one thread. Plain data: it is there from a thread's first call to its last. First what every
// step of a training needs, in one line of the cache.
struct alignas(64) ThreadPhases {
  static constexpr uint32_t kMost = 8;
  static constexpr uint32_t kMostOptimizers = 8;
  static constexpr uint32_t kMostAnnotations = 8;
  // One that was entered, and the name that its begin was written with; 0: none was.
  struct Annotation {
    const void* of;
    uint32_t name;
  };

  // The outermost function under way whose rhythm is listened to, as it was called.
  struct Call {
    PyObject* function;
    PyObject* const* args;
    size_t count;
    PyObject* names;
  };

  uint32_t run = 0;  // of the probe; a forked child begins anew
  uint32_t depth = 0;
  RingWriter* const* ring = nullptr;  // Probe::attached_place()
  Phase open[kMost] = {};
  bool written[kMost] = {};
  uint32_t mask = 0;
  uint32_t modules = 0;       // calls of modules under way, as far as they are told
  bool has_step = false;      // its first step is told
  bool is_programs = false;   // a thread of the program's, none of autograd's; known once it was
  bool origin_known = false;  // asked for
  bool spans = false;         // the outermost of the modules and those inside it are told by name
  bool outputs = false;       // what they return is looked at
  uint32_t step_calls = 0;    // calls under way that are a step by themselves
  uint32_t optimizers = 0;
  const void* optimizer[kMostOptimizers] = {};
  // Where threads train on their own: whose steps are this thread's, and another since the last.
  const void* lead = nullptr;
  const void* follower = nullptr;
  Call call = {};
  uint32_t annotations = 0;
  bool annotations_forgotten = false;  // there were more than have room
  Annotation annotation[kMostAnnotations] = {};
  Rhythm rhythm;
  uint64_t first_ticks = 0;     // when the first step began, until it is sure that we tell steps
  uint64_t data_ticks = 0;      // when data were last asked for, before the first step is told
  bool evaluates = false;       // the last call of a module was no part of a training
  bool rhythm_is_sure = false;  // the steps of functions are no longer held back
  int64_t held_ns = 0;          // since when they were; 0: never
  bool infers = false;          // enough of them for a program that does nothing else

  bool has(Phase phase) const noexcept { return (mask >> static_cast<uint32_t>(phase) & 1) != 0; }
};

// To find a thread's costs as much as a record: once a call, then handed on.
ThreadPhases& thread_phases() noexcept;
// The same after something of the program's has run: it may have forked, and this be the child.
ThreadPhases& current(ThreadPhases& mine) noexcept;

// A begin or an end.
void write_span_at(RingWriter* ring, RecordType type, uint32_t name, uint8_t kind,
                   uint64_t ticks) noexcept;

// False if the phase goes on already: then there is nothing to leave.
bool enter_phase(ThreadPhases& mine, Phase phase) noexcept;
void leave_phase(ThreadPhases& mine, Phase phase) noexcept;

// Steps that nobody called pilotlight.step() for. Nothing happens once somebody has.
void automatic_step() noexcept;
void automatic_step(int64_t number) noexcept;
// By something better than the rhythm of calls, from here on.
void steps_are_told() noexcept;

// What a step is told from. `may_train`: gradients are on, so a backward may follow.
void module_called(const void* module, bool may_train) noexcept;
bool is_training() noexcept;
void function_called(const void* function) noexcept;
void step_call_begins() noexcept;
void backward_begins(ThreadPhases& mine) noexcept;
// `has_gradients`: it did not raise. Where there is no optimizer, it ends a step.
void backward_ends(bool has_gradients) noexcept;
// Of the program's own threads only in its own; autograd's may work for any.
bool is_inside_backward(ThreadPhases& mine) noexcept;
// False inside a step of the same optimizer: then there is nothing to end.
bool optimizer_begins(ThreadPhases& mine, const void* optimizer) noexcept;
void optimizer_ends(ThreadPhases& mine, const void* optimizer, bool has_stepped) noexcept;
// A gradient scaler found no use for the gradients: the step is over all the same.
void optimizer_skipped(const void* optimizer) noexcept;
uint64_t optimizer_calls() noexcept;
void optimizer_made(const void* optimizer) noexcept;
// At the end: steps of which it was not sure until now.
void last_steps() noexcept;

}  // namespace pilotlight
