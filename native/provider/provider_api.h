// native/provider/provider_api.h: what the running probe offers to the device libraries beside it.
//
// A provider (CUDA, NVTX, NCCL, OpenCL, ...) is a library that some driver or loader brings into
// the process. It finds the probe with attach() and writes records into the ring of the calling
// thread. Table and libraries come from the same build: `writer_bytes` and `abi` guard against
// mixes. docs/providers.md explains it.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "ring/ring.h"

namespace pilotlight {

constexpr uint32_t kProviderApiVersion = 1;

// When steps began, newest last, so that a provider can compare steps with and without it.
struct StepClock {
  static constexpr uint32_t kKept = 1024;  // a power of two
  std::atomic<uint64_t> count;             // steps ever; the last is at (count - 1) % kKept
  std::atomic<uint64_t> ticks[kKept];
};

struct ProviderApi {
  uint32_t version;       // kProviderApiVersion
  uint32_t bytes;         // of this table; it only grows at the end
  uint32_t abi;           // kAbiMajor << 16 | kAbiMinor
  uint32_t writer_bytes;  // sizeof(RingWriter)

  // False while the probe is off or paused: write nothing then but marks.
  const std::atomic<bool>* collecting;
  // Grows when the probe starts anew (in a forked child): ids from before mean nothing any more.
  const std::atomic<uint32_t>* run;
  // The tier that the agent's clients ask for; kTierDefault if nobody does.
  const std::atomic<uint32_t>* tier;
  const StepClock* steps;

  // The calling thread's ring, nullptr if there is none. Stays valid while the thread lives.
  RingWriter* (*ring)() noexcept;
  // Ids of definitions; 0 if the arena is full (counted by the probe). All may be called by any
  // thread and take a short lock: keep what you got.
  uint32_t (*string)(const char* text, size_t bytes) noexcept;
  uint32_t (*track)(uint32_t name, TrackKind kind, uint16_t device, uint64_t stream) noexcept;
  // The calling thread's Python stack now; 0 where there is none. Some 100 ns if it was seen
  // before.
  uint32_t (*stack)() noexcept;
  // The name of the calling thread's innermost open range, or 0.
  uint32_t (*range)() noexcept;
  // For things that happen rarely: a change of state, a count once a second. Also while paused.
  void (*mark)(const char* name, size_t bytes, int64_t value) noexcept;
  void (*counter)(const char* name, size_t bytes, double value) noexcept;
};

// In `tier`.
enum Tier : uint32_t {
  kTierDefault = 0,   // launches always, device records as the governor allows
  kTierLaunches = 1,  // T0 only
  kTierRecords = 2,   // T1 as far as the budget goes
  kTierNodes = 3,     // T1 with the nodes of graphs
  kTierOff = 4,       // nothing at all, torn down
  kTierAll = 5,       // everything all the time, without a ceiling: for a short capture
  kTierPc = 6,        // T1, and every other window PC sampling instead of records
  kTierPm = 7,        // the same with PM sampling
  kTierRange = 8,     // the range profiler instead of records
};

// The probe of this process: Python's if it is loaded, else a core of our own that is started now.
// nullptr: there is none, or it is of another build. Cheap after the first call; never throws.
const ProviderApi* attach() noexcept;

// Where the library lies that contains this code, without its name; "" if that is not known.
std::string_view own_folder() noexcept;

// The library that `variable` named before we put ourselves there, loaded; nullptr: there was none.
void* chained_library(const char* variable) noexcept;

}  // namespace pilotlight

// The one symbol that _probe and libpilotlight_core.so export.
extern "C" const pilotlight::ProviderApi* pilotlight_provider_api(uint32_t version);
