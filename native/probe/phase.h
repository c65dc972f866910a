// native/probe/phase.h: what a thread's step is doing, told by the frameworks' adapters.
//
// The phases of a thread never overlap: one that begins inside another interrupts it, so that
// their sums add up to the step. Needs the GIL.
//
// A step of a framework leaves little of us in the caches, so that a line of code or data that it
// needs costs more than many instructions. So the phases of a short step are kept until it ends,
// and then written in one go; what is under way is in the ring's slot meanwhile.
#pragma once

#include <cstdint>

#include "probe/hot.h"
#include "probe/probe.h"
#include "probe/rhythm.h"
#include "ring/ring.h"

typedef struct _object PyObject;

namespace pilotlight {

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
// step of a training needs, in two lines of the cache.
struct alignas(64) ThreadPhases {
  static constexpr uint32_t kMost = 8;
  static constexpr uint32_t kMostEnded = 8;
  static constexpr uint32_t kMostOptimizers =
      9;  // one in the first line, and those after it fill one
  static constexpr uint32_t kMostAnnotations = 8;
  // A phase that is over and not written yet.
  struct Ended {
    uint64_t start_ticks;
    uint32_t ticks;
    uint32_t name;
  };
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

  uint32_t run = 0;                   // of the probe; a forked child begins anew
  uint32_t modules = 0;               // calls of modules under way, as far as they are told
  RingWriter* const* ring = nullptr;  // Probe::attached_place()
  uint64_t since_ticks = 0;           // of the phase on top; 0: nothing is collected of it
  uint32_t since_name = 0;
  uint8_t depth = 0;
  uint8_t mask = 0;
  uint8_t ended = 0;
  bool has_step = false;  // its first step is told
  Phase open[kMost] = {};
  bool is_programs = false;   // a thread of the program's, none of autograd's; known once it was
  bool origin_known = false;  // asked for
  bool spans = false;         // the outermost of the modules and those inside it are told by name
  bool is_quiet = false;      // an outermost module is under way and those inside it are not told
  bool outputs = false;       // what modules return is looked at
  bool tells_steps = false;
  uint8_t optimizers = 0;
  uint32_t step_calls = 0;  // calls under way that are a step by themselves
  const void* optimizer[kMostOptimizers] = {};
  Ended pending[kMostEnded] = {};
  uint64_t step_end_ticks = 0;  // where the last step ended, if it has an end of its own
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

// Of the process: what every call needs, in one line.
struct alignas(64) ProcessPhases {
  uint32_t run = 0;
  uint32_t names[static_cast<size_t>(Phase::kCount)] = {};
  bool is_training = false;
  bool is_by_hand = false;
  bool has_step = false;
  bool stepper_is_programs = false;
  bool is_by_thread = false;
  int32_t backwards = 0;
  uint64_t optimizer_calls = 0;
  const ThreadPhases* stepper = nullptr;  // whose optimizers step; null where threads train alone
};
extern ProcessPhases process;

void begin_run(uint32_t run) noexcept;

inline ProcessPhases& process_phases() noexcept {
  uint32_t run = Probe::get().run_number();
  if (__builtin_expect(process.run != run, 0)) begin_run(run);
  return process;
}

// The calling thread's; null before its first call. Where the thread's own block begins, not where
// a library's is looked for: that costs as much as a record, several times a step.
extern __thread ThreadPhases* this_threads_phases __attribute__((tls_model("initial-exec")));

ThreadPhases& begin_phases() noexcept;

inline ThreadPhases& thread_phases() noexcept {
  ThreadPhases* mine = this_threads_phases;
  bool is_known = mine != nullptr && mine->run == Probe::get().run_number();
  return __builtin_expect(is_known, 1) ? *mine : begin_phases();
}

// The same after something of the program's has run: it may have forked, and this be the child.
inline ThreadPhases& current(ThreadPhases& mine) noexcept {
  return __builtin_expect(mine.run == Probe::get().run_number(), 1) ? mine : begin_phases();
}

// The ring of a thread's phases, or nullptr.
RingWriter* ring_of(const ThreadPhases& mine) noexcept;
// Now, on the clock of the calling thread's ring; 0: it has none.
uint64_t now_ticks() noexcept;

// A begin or an end.
void write_span_at(RingWriter* ring, RecordType type, uint32_t name, uint8_t kind,
                   uint64_t ticks) noexcept;

// False if the phase goes on already: then there is nothing to leave.
bool enter_phase(ThreadPhases& mine, Phase phase) noexcept;
void leave_phase(ThreadPhases& mine, Phase phase) noexcept;
// Writes those that are over.
void tell_phases(ThreadPhases& mine, RingWriter* ring) noexcept;

}  // namespace pilotlight
