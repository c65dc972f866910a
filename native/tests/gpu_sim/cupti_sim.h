// native/tests/gpu_sim/cupti_sim.h: what the parts of the simulated CUPTI share.
#pragma once

#include <stdint.h>

#include <vector>

#include "cuda/cupti_abi.h"
#include "sim.h"

namespace gpu_sim {

// CUPTI_API_VERSION of the library that this is linked into.
extern const uint32_t kVersion;

// Ends the process in a forked child, and inside a buffer callback, where nothing may be called.
void check_caller(const char* function);
// The former of the two.
void check_process();
bool kernel_records_on();

// The time that CUPTI tells and writes into records for an instant of the simulated driver's clock:
// the same, or of the clock that a client gave it.
uint64_t told_time(uint64_t ns);

// Of records, by their kind.
size_t size_of(uint32_t kind);
uint32_t kind_of(const Work& work);
void write_record(uint8_t* place, uint32_t kind, const Work& work);

// That the calling thread has pushed.
struct ExternalId {
  uint32_t kind;
  uint64_t id;
};
std::vector<ExternalId> external_ids();

// Of PC sampling.
bool pc_sampling_on();
void pc_sampling_sees(const Work& kernel);
void pc_sampling_context_ends(void* context);

// Of PM sampling.
void pm_sampling_sees(const Work& kernel);

// Of the range profiler.
void range_profiler_sees(const Work& kernel);
void range_profiler_context_ends(void* context);

}  // namespace gpu_sim
