// native/cuda/pm_sampling_abi.h: CUPTI's PM Sampling API as its public headers declare it, by hand,
// for CUDA 12.6 to 13.x. native/tests/cupti_abi_check.cpp compares it with the real headers.
#pragma once

#include "cuda/profiler_host_abi.h"

namespace pilotlight::cupti {

struct PmEnableParams {
  size_t struct_bytes;
  void* unused;
  size_t device;
  void* sampler;  // out
};

// Of Disable, Start and Stop.
struct PmParams {
  size_t struct_bytes;
  void* unused;
  void* sampler;
};

enum class PmTrigger : uint32_t { kCycles = 0, kNanoseconds = 1 };
constexpr uint32_t kPmKeepOldest = 0;

struct PmConfigureParams {
  size_t struct_bytes;
  void* unused;
  void* sampler;
  size_t config_bytes;
  const uint8_t* config;
  size_t hardware_buffer_bytes;
  uint64_t interval;
  PmTrigger trigger;
  uint32_t append_mode;
};
// The last field came with CUDA 12.8.
constexpr size_t pm_configure_bytes(uint32_t version) { return version >= 25 ? 64 : 60; }

enum class PmDecodeStop : uint32_t { kOther = 0, kImageFull = 1, kEndOfRecords = 2 };

struct PmDecodeParams {
  size_t struct_bytes;
  void* unused;
  void* sampler;
  uint8_t* image;
  size_t image_bytes;
  PmDecodeStop stop;
  uint8_t overflow;
};
constexpr size_t kPmDecodeBytes = 45;

struct PmAvailabilityParams {
  size_t struct_bytes;
  void* unused;
  size_t device;
  size_t bytes;
  uint8_t* image;
};

struct PmImageSizeParams {
  size_t struct_bytes;
  void* unused;
  void* sampler;
  const char** names;
  size_t count;
  uint32_t most_samples;
  size_t bytes;
};

struct PmImageInitializeParams {
  size_t struct_bytes;
  void* unused;
  void* sampler;
  size_t bytes;
  uint8_t* image;
};

struct PmImageInfoParams {
  size_t struct_bytes;
  void* unused;
  const uint8_t* image;
  size_t image_bytes;
  size_t total;
  size_t populated;
  size_t completed;
};

struct PmSampleInfoParams {
  size_t struct_bytes;
  void* unused;
  void* sampler;
  const uint8_t* image;
  size_t image_bytes;
  size_t index;
  uint64_t start;
  uint64_t end;
};

static_assert(sizeof(PmEnableParams) == 32 && sizeof(PmParams) == 24);
static_assert(sizeof(PmConfigureParams) == 64 && sizeof(PmDecodeParams) == 48);
static_assert(sizeof(PmAvailabilityParams) == 40 && sizeof(PmImageSizeParams) == 56);
static_assert(sizeof(PmImageInitializeParams) == 40 && sizeof(PmImageInfoParams) == 56);
static_assert(sizeof(PmSampleInfoParams) == 64);

}  // namespace pilotlight::cupti
