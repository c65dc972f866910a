// native/cuda/profiler_host_abi.h: CUPTI's Profiler Host API, which turns names of metrics into a
// configuration of the hardware and counters into values, and what comes before it, as the public
// headers declare them, by hand, for CUDA 12.6 to 13.x. native/tests/cupti_abi_check.cpp compares
// it with the real headers.
//
// CUPTI wants the size of a structure up to the end of its last field, without padding.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/cupti_abi.h"

namespace pilotlight::cupti {

// Of Initialize and DeInitialize.
struct ProfilerParams {
  size_t struct_bytes;
  void* unused;
};

struct ChipNameParams {
  size_t struct_bytes;
  void* unused;
  size_t device;
  const char* name;
};

enum class ProfilerType : uint32_t { kRange = 0, kPmSampling = 1 };

struct HostInitializeParams {
  size_t struct_bytes;
  void* unused;
  ProfilerType type;
  const char* chip;
  const uint8_t* availability;
  void* host;
  const char* metric_set;
};
// The last field came with CUDA 13.2.
constexpr size_t host_initialize_bytes(uint32_t version) { return version >= 130200 ? 56 : 48; }

struct HostParams {
  size_t struct_bytes;
  void* unused;
  void* host;
};

struct HostAddMetricsParams {
  size_t struct_bytes;
  void* unused;
  void* host;
  const char** names;
  size_t count;
};

struct HostConfigSizeParams {
  size_t struct_bytes;
  void* unused;
  void* host;
  size_t bytes;
};

struct HostConfigParams {
  size_t struct_bytes;
  void* unused;
  void* host;
  size_t bytes;
  uint8_t* config;
};

struct HostPassesParams {
  size_t struct_bytes;
  void* unused;
  size_t bytes;
  uint8_t* config;
  size_t passes;
};

struct HostEvaluateParams {
  size_t struct_bytes;
  void* unused;
  void* host;
  const uint8_t* image;
  size_t image_bytes;
  size_t index;
  const char** names;
  size_t count;
  double* values;
};

static_assert(sizeof(ProfilerParams) == 16 && sizeof(ChipNameParams) == 32);
static_assert(sizeof(HostInitializeParams) == 56 && sizeof(HostParams) == 24);
static_assert(sizeof(HostAddMetricsParams) == 40 && sizeof(HostConfigSizeParams) == 32);
static_assert(sizeof(HostConfigParams) == 40 && sizeof(HostPassesParams) == 40);
static_assert(sizeof(HostEvaluateParams) == 72);

}  // namespace pilotlight::cupti
