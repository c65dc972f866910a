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
abi::Result cuptiSubscribe(void** subscriber, abi::Callback callback, void* user);
abi::Result cuptiUnsubscribe(void* subscriber);
abi::Result cuptiEnableCallback(uint32_t on, void* subscriber, uint32_t domain, uint32_t id);
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
void* subscriber = nullptr;
std::atomic<uint64_t> heard{0}, unasked{0};

void hear(void*, uint32_t domain, uint32_t id, const void*) {
  (domain == abi::kDriver && id == 307 ? heard : unasked)++;
}

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

// As PyTorch's profiler before August 2026: subscribed from its first use to the end of the
// process.
int tracer_subscribe() {
  abi::Result result = cuptiSubscribe(&subscriber, hear, nullptr);
  return result != abi::kSuccess ? result : cuptiEnableCallback(1, subscriber, abi::kDriver, 307);
}

int tracer_unsubscribe() { return cuptiUnsubscribe(subscriber); }
uint64_t tracer_heard() { return heard; }
uint64_t tracer_unasked() { return unasked; }
// It registered where its buffers go before.
int tracer_again() { return cuptiActivityEnable(abi::kConcurrentKernel); }

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
