// native/nccl/collectives.h: what is done with an event, whatever version of the interface it came
// through.
#pragma once

#include "nccl/described.h"
#include "nccl/events.h"
#include "provider/provider_api.h"

namespace pilotlight::nccl {

// Everything below returns at once and never fails: NCCL gets success, or a handle of nothing.
Context* open_context(int version, int* mask, const char* name, uint64_t hash, int ranks,
                      int rank) noexcept;
void close_context(void* context) noexcept;
void* start(void* context, const Described& described) noexcept;
void stop(void* handle) noexcept;
void state(void* handle, int state, const StateArguments* arguments, bool has_gpu_time) noexcept;

}  // namespace pilotlight::nccl
