// native/probe/sampler.h: takes the Python stacks of all threads of this process.
#pragma once

#include <cstdint>

#include "probe/copy_window.h"
#include "probe/thread_names.h"
#include "ring/definitions.h"
#include "ring/layout.h"
#include "ring/ring.h"

namespace pilotlight {

struct SamplerCounts {
  uint32_t passes, taken, torn;
  uint32_t named;  // threads whose kernel name was told: grows when new ones appear
};

// Used by one thread only (the probe's own), which holds no lock of the interpreter and is itself
// not sampled. Never throws; what may be gone it lets the kernel copy (process_memory.h).
class Sampler {
 public:
  Sampler() = default;
  ~Sampler();
  Sampler(const Sampler&) = delete;
  Sampler& operator=(const Sampler&) = delete;

  // Allocates all it will ever need (at most 4 MiB). False: this Python cannot be walked, why()
  // says.
  bool open(const PythonInfo& python, const CopyWindow* window, Definitions* definitions,
            RingWriter* ring) noexcept;

  // One round over all threads: writes a kSample record for each, weighted with the time since that
  // thread's last sample.
  void pass() noexcept;

  // Forgets when threads were last seen, so that a pause is not put on anybody's account.
  void restart() noexcept;

  SamplerCounts counts() const noexcept;
  const char* why() const noexcept;
  // May be written by any thread at any time.
  ThreadNames& names() noexcept { return names_; }

 private:
  struct State;
  State* state_ = nullptr;
  ThreadNames names_;
};

// Fills in what a walk of the running interpreter needs. version stays 0 if it is not known how.
void describe_python(PythonInfo* info) noexcept;

}  // namespace pilotlight
