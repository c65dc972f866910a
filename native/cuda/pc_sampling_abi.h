// native/cuda/pc_sampling_abi.h: CUPTI's PC Sampling API as its public headers declare it, by hand,
// for CUDA 11.8 to 13.x. native/tests/cupti_abi_check.cpp compares it with the real headers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "cuda/cupti_abi.h"

namespace pilotlight::cupti {

constexpr size_t kStallReasonNameBytes = 128;

struct StallSamples {
  uint32_t reason;
  uint32_t samples;
};

// An array of these is as wide as the library's own: 56 bytes before API version 22 (CUDA 12.4),
// which put a correlation number at the end, 64 since.
struct PcRecord {
  size_t struct_bytes;
  uint64_t cubin_crc;
  uint64_t offset;
  uint32_t function_index;
  uint32_t padding;
  char* function;
  size_t reasons;
  StallSamples* stalls;
};
constexpr size_t pc_record_bytes(uint32_t version) { return version >= 22 ? 64 : 56; }

struct PcData {
  size_t struct_bytes;
  size_t most_records;
  uint64_t total_samples;
  uint64_t dropped_samples;
  size_t records;
  size_t left;  // records that did not fit
  uint64_t range;
  void* first;  // PcRecord, as wide as pc_record_bytes() says
  uint64_t other_samples;
  uint8_t is_hardware_full;
  uint8_t padding[7];
};
// The last field is not in CUDA 11.8, whose API version CUDA 12.0 and 12.1 have too.
constexpr size_t pc_data_bytes(uint32_t version) { return version > 18 ? 80 : 72; }

enum PcAttribute : uint32_t {
  kPcStallReasons = 2,
  kPcHardwareBufferBytes = 4,
  kPcCollectionMode = 5,
  kPcStartStopControl = 6,
  kPcDataBuffer = 8,
};
constexpr uint64_t kPcContinuous = 1;

struct PcSetting {
  uint32_t attribute;
  Result status;
  uint64_t value[3];  // a number, or a count and a pointer
};

struct PcConfigureParams {
  size_t struct_bytes;
  void* unused;
  Context context;
  size_t count;
  PcSetting* settings;
};

// Of Enable, Disable, Start and Stop.
struct PcContextParams {
  size_t struct_bytes;
  void* unused;
  Context context;
};

struct PcGetDataParams {
  size_t struct_bytes;
  void* unused;
  Context context;
  void* data;
};

struct PcCountReasonsParams {
  size_t struct_bytes;
  void* unused;
  Context context;
  size_t* count;
};

struct PcGetReasonsParams {
  size_t struct_bytes;
  void* unused;
  Context context;
  size_t count;
  uint32_t* indices;
  char** names;
};

static_assert(sizeof(PcRecord) == 56 && sizeof(PcData) == 80 && sizeof(PcSetting) == 32);
static_assert(sizeof(PcConfigureParams) == 40 && sizeof(PcContextParams) == 24);
static_assert(sizeof(PcGetDataParams) == 32 && sizeof(PcCountReasonsParams) == 32);
static_assert(sizeof(PcGetReasonsParams) == 48);

}  // namespace pilotlight::cupti
