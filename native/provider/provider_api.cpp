// native/provider/provider_api.cpp: the probe's side of the table; part of _probe and of the core.
#include "provider/provider_api.h"

#include "probe/probe.h"

namespace pilotlight {
namespace {

RingWriter* ring() noexcept { return Probe::get().ring(); }

uint32_t string(const char* text, size_t bytes) noexcept {
  return Probe::get().string({text, bytes});
}

uint32_t track(uint32_t name, TrackKind kind, uint16_t device, uint64_t stream) noexcept {
  return Probe::get().track(name, kind, device, stream);
}

uint32_t stack() noexcept { return Probe::get().own_stack(); }

uint32_t range() noexcept { return Probe::get().own_range(); }

void mark(const char* name, size_t bytes, int64_t value) noexcept {
  Probe& probe = Probe::get();
  RingWriter* ring = probe.ring();
  if (ring == nullptr) return;
  Value record = {};
  record.value = value;
  ring->write(RecordType::kMark, probe.string({name, bytes}), record);
}

void counter(const char* name, size_t bytes, double value) noexcept {
  Probe& probe = Probe::get();
  RingWriter* ring = probe.ring();
  if (ring == nullptr) return;
  Counter record = {};
  record.value = value;
  ring->write(RecordType::kCounter, probe.string({name, bytes}), record);
}

}  // namespace
}  // namespace pilotlight

extern "C" __attribute__((visibility("default"))) const pilotlight::ProviderApi*
pilotlight_provider_api(uint32_t version) {
  using namespace pilotlight;
  if (version != kProviderApiVersion) return nullptr;
  Probe::create();
  Probe& probe = Probe::get();
  static const ProviderApi api = {kProviderApiVersion,
                                  sizeof(ProviderApi),
                                  uint32_t{kAbiMajor} << 16 | kAbiMinor,
                                  sizeof(RingWriter),
                                  probe.collecting_word(),
                                  probe.run_word(),
                                  probe.tier_word(),
                                  probe.steps(),
                                  ring,
                                  string,
                                  track,
                                  stack,
                                  range,
                                  mark,
                                  counter};
  return &api;
}
