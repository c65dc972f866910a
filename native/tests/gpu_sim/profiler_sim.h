// native/tests/gpu_sim/profiler_sim.h: what the simulated Profiler Host API and the simulated ways
// of collecting for it share.
#pragma once

#include <stdint.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "cuda/profiler_host_abi.h"
#include "cupti_sim.h"

namespace gpu_sim {

// What the units of a device did in a stretch of time, as shares of it.
struct Units {
  double busy, tensor, memory;
};

struct ImageEntry {
  uint64_t start_ns, end_ns;
  Units units;
};

// A counter data image, as it lies in the client's memory.
struct Image {
  static constexpr uint64_t kMagic = 0x9a6c1bd2e4f70835;
  uint64_t magic;
  pilotlight::cupti::ProfilerType type;
  uint32_t most, count;
  ImageEntry entries[1];

  static size_t bytes(uint32_t most) { return sizeof(Image) + most * sizeof(ImageEntry); }
};

bool profiler_is_initialized();
// Another program has the counters: for good, or as long as a file is there.
inline bool counters_are_busy() {
  const char* file = getenv("PILOTLIGHT_SIM_BUSY_FILE");
  return file != nullptr && access(file, F_OK) == 0;
}
const char* chip();
// Ends the process unless it is an image as large as this, of this way of collecting.
Image* image_in(uint8_t* data, size_t bytes, pilotlight::cupti::ProfilerType type);
// Ends the process unless that is a configuration of one pass for this way of collecting.
void check_config(const uint8_t* config, size_t bytes, pilotlight::cupti::ProfilerType type);
Units units_of(const Work& kernel);

template <typename T>
void check_params(const T* params, size_t bytes, const char* function) {
  check_caller(function);
  if (params == nullptr || params->struct_bytes != bytes) illegal("a wrong struct size");
  if (params->unused != nullptr) illegal("pPriv is not NULL");
}
template <typename T>
void check_params(const T* params, const char* function) {
  check_params(params, sizeof(T), function);
}

}  // namespace gpu_sim
