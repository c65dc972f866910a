// native/cuda/range_profiler_abi.h: CUPTI's Range Profiler API as its public headers declare it, by
// hand, for CUDA 12.6 to 13.x. native/tests/cupti_abi_check.cpp compares it with the real headers.
#pragma once

#include "cuda/profiler_host_abi.h"

namespace pilotlight::cupti {

struct RangeEnableParams {
  size_t struct_bytes;
  void* unused;
  Context context;
  void* profiler;  // out
  uint32_t cache_control;
};
// The last field came with CUDA 13.4.
constexpr size_t range_enable_bytes(uint32_t version) { return version >= 130400 ? 36 : 32; }

// Of Disable and Start.
struct RangeParams {
  size_t struct_bytes;
  void* unused;
  void* profiler;
};

enum class RangeMode : uint32_t { kEachKernel = 1 };
enum class ReplayMode : uint32_t { kKernel = 2 };

struct RangeConfigureParams {
  size_t struct_bytes;
  void* unused;
  void* profiler;
  size_t config_bytes;
  const uint8_t* config;
  size_t image_bytes;
  uint8_t* image;
  RangeMode range;
  ReplayMode replay;
  size_t most_ranges;
  uint16_t nesting_levels;
  uint16_t least_nesting_level;
  size_t pass;
  uint16_t target_nesting_level;
};
constexpr size_t kRangeConfigureBytes = 90;

struct RangeStopParams {
  size_t struct_bytes;
  void* unused;
  void* profiler;
  size_t pass;
  size_t target_nesting_level;
  uint8_t is_complete;
};
constexpr size_t kRangeStopBytes = 41;

struct RangeDecodeParams {
  size_t struct_bytes;
  void* unused;
  void* profiler;
  size_t dropped;
};

struct RangeImageSizeParams {
  size_t struct_bytes;
  void* unused;
  void* profiler;
  const char** names;
  size_t count;
  size_t most_ranges;
  uint32_t most_nodes;
  size_t bytes;
};

struct RangeImageInitializeParams {
  size_t struct_bytes;
  void* unused;
  void* profiler;
  size_t bytes;
  uint8_t* image;
};

struct RangeImageInfoParams {
  size_t struct_bytes;
  void* unused;
  const uint8_t* image;
  size_t image_bytes;
  size_t total;
};

struct ContextAvailabilityParams {
  size_t struct_bytes;
  void* unused;
  Context context;
  size_t bytes;
  uint8_t* image;
  uint8_t with_device_counters;
};
// The last field came with CUDA 13.1.
constexpr size_t context_availability_bytes(uint32_t version) {
  return version >= 130100 ? 41 : 40;
}

static_assert(sizeof(RangeEnableParams) == 40 && sizeof(RangeParams) == 24);
static_assert(sizeof(RangeConfigureParams) == 96 && sizeof(RangeStopParams) == 48);
static_assert(sizeof(RangeDecodeParams) == 32 && sizeof(RangeImageSizeParams) == 64);
static_assert(sizeof(RangeImageInitializeParams) == 40 && sizeof(RangeImageInfoParams) == 40);
static_assert(sizeof(ContextAvailabilityParams) == 48);

}  // namespace pilotlight::cupti
