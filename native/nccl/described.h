// native/nccl/described.h: an event of NCCL, whatever version of the interface it came through.
#pragma once

#include <cstddef>
#include <cstdint>

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
  bool is_captured;  // a call: into a CUDA graph
};

}  // namespace pilotlight::nccl
