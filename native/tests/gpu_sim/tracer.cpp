// native/tests/gpu_sim/tracer.cpp: another tool that traces, in the order of calls that PyTorch's
// profiler has: a clock of its own, buffers that nobody zeroed, and what is still out is asked for
// some time after all was turned off.
#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "cuda/cupti_abi.h"
#include "ring/clock.h"

namespace abi = pilotlight::cupti;

extern "C" {
abi::Result cuptiActivityRegisterTimestampCallback(uint64_t (*clock)());
abi::Result cuptiActivityRegisterCallbacks(abi::RequestBuffer request,
                                           abi::CompleteBuffer complete);
abi::Result cuptiActivityEnable(uint32_t kind);
abi::Result cuptiActivityDisable(uint32_t kind);
abi::Result cuptiActivityFlushAll(uint32_t flags);
abi::Result cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, abi::Activity** record);
}

namespace {

constexpr size_t kBytes = 64 * 1024;
std::atomic<uint64_t> kernels{0};

// Three to a nanosecond, as the counter of a processor may have.
uint64_t triple() { return static_cast<uint64_t>(pilotlight::clock_ns(CLOCK_MONOTONIC)) * 3; }
// That counter itself.
uint64_t ticks() { return pilotlight::ticks_of(pilotlight::trusted_clock()); }

void request(uint8_t** buffer, size_t* bytes, size_t* most) {
  *buffer = static_cast<uint8_t*>(malloc(kBytes));
  memset(*buffer, 0xaa, kBytes);
  *bytes = kBytes;
  *most = 0;
}

void complete(abi::Context, uint32_t, uint8_t* buffer, size_t, size_t valid) {
  abi::Activity* record = nullptr;
  while (valid != 0 && cuptiActivityGetNextRecord(buffer, valid, &record) == abi::kSuccess) {
    if (record->kind == abi::kConcurrentKernel) kernels++;
  }
  free(buffer);
}

}  // namespace

extern "C" {

int tracer_begin() {
  const char* clock = getenv("TRACER_CLOCK");
  bool counts = clock != nullptr && strcmp(clock, "ticks") == 0;
  cuptiActivityRegisterTimestampCallback(counts ? ticks : triple);
  cuptiActivityRegisterCallbacks(request, complete);
  return cuptiActivityEnable(abi::kConcurrentKernel);
}

int tracer_end() { return cuptiActivityDisable(abi::kConcurrentKernel); }

uint64_t tracer_collect() {
  cuptiActivityFlushAll(abi::kFlushForced);
  return kernels;
}
}
