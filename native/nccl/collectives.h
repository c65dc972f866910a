// native/nccl/collectives.h: what is done with an event, whatever version of the interface it came
// through.
#pragma once

#include "nccl/events.h"
#include "provider/provider_api.h"

namespace pilotlight::nccl {

// What an event of any version says.
struct Described {
  uint64_t type;
  void* parent;
  int rank;
  const char* comm_name;  // v1 to v3; nullptr: the context knows
  uint64_t comm_hash;
  const char* func;
  const char* datatype;
  size_t count;
  uint64_t sequence;
  int peer;
  int channels;
  uint64_t gpu_ns;
  int pid;
};

const char* func_name(uint8_t number) noexcept;      // of v1
const char* datatype_name(uint8_t number) noexcept;  // of v1

// Everything below returns at once and never fails: NCCL gets success, or a handle of nothing.
Context* open_context(int version, int* mask, const char* name, uint64_t hash, int ranks,
                      int rank) noexcept;
void close_context(void* context) noexcept;
void* start(void* context, const Described& described) noexcept;
void stop(void* handle) noexcept;
void state(void* handle, int state, const StateArguments* arguments, bool has_gpu_time) noexcept;

}  // namespace pilotlight::nccl
