// native/tests/gpu_sim/pm_sampling_sim.cpp: CUPTI's PM Sampling API, simulated.
//
// A sample says how much of its interval kernels ran on the device. Its times are of a clock of the
// device's own. Strict: order of calls, sizes of structures, images and configurations.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "cuda/pm_sampling_abi.h"
#include "profiler_sim.h"

namespace abi = pilotlight::cupti;
using abi::ProfilerType;
using gpu_sim::check_params;
using gpu_sim::has_trap;
using gpu_sim::illegal;
using gpu_sim::Image;
using gpu_sim::ImageEntry;
using gpu_sim::kVersion;

namespace {

constexpr uint64_t kDeviceClockNs = 777000000000000;  // ahead of the host's
constexpr size_t kRoomOfTrap = 20;                    // samples, where the hardware has too little
constexpr size_t kAvailabilityBytes = 64;

struct Ran {
  uint64_t start_ns, end_ns;
  gpu_sim::Units units;
};

struct State {
  uint32_t device = 0;
  bool is_configured = false, is_started = false;
  uint64_t interval_ns = 0;
  uint64_t start_ns = 0;
  std::vector<Ran> ran;
  std::vector<ImageEntry> samples;  // to be decoded
  bool overflow = false;
};

std::mutex mutex;
std::map<void*, State*> states;
std::atomic<uint32_t> started{0};

State* state_of(void* sampler) {
  auto found = states.find(sampler);
  if (found == states.end()) illegal("a PM sampling object that is none");
  return found->second;
}

// The samples between start and now.
void take(State* state) {
  uint64_t now = gpu_sim_now();
  size_t count = (now - state->start_ns) / state->interval_ns;
  state->overflow = has_trap("pm_full") && count > kRoomOfTrap;
  if (state->overflow) count = kRoomOfTrap;
  std::vector<ImageEntry> samples(count);
  for (size_t i = 0; i < count; i++) {
    samples[i] = {state->start_ns + i * state->interval_ns,
                  state->start_ns + (i + 1) * state->interval_ns,
                  {}};
  }
  for (const Ran& ran : state->ran) {
    uint64_t from = std::max(ran.start_ns, state->start_ns) - state->start_ns;
    for (size_t i = from / state->interval_ns; i < count; i++) {
      ImageEntry& sample = samples[i];
      if (sample.start_ns >= ran.end_ns) break;
      double part =
          double(std::min(sample.end_ns, ran.end_ns) - std::max(sample.start_ns, ran.start_ns)) /
          double(state->interval_ns);
      sample.units.busy += part * ran.units.busy;
      sample.units.tensor += part * ran.units.tensor;
      sample.units.memory += part * ran.units.memory;
    }
  }
  for (ImageEntry& sample : samples) {
    sample.start_ns += kDeviceClockNs;
    sample.end_ns += kDeviceClockNs;
    state->samples.push_back(sample);
  }
  state->ran.clear();
}

}  // namespace

namespace gpu_sim {

void pm_sampling_sees(const Work& kernel) {
  if (started.load(std::memory_order_relaxed) == 0) return;
  std::lock_guard<std::mutex> lock(mutex);
  for (auto& [object, state] : states) {
    if (!state->is_started || state->device != kernel.device) continue;
    state->ran.push_back({kernel.start_ns, kernel.end_ns, units_of(kernel)});
  }
}

}  // namespace gpu_sim

extern "C" {

abi::Result cuptiPmSamplingEnable(abi::PmEnableParams* params) {
  check_params(params, "cuptiPmSamplingEnable");
  if (!gpu_sim::profiler_is_initialized()) return abi::kNotInitialized;
  if (has_trap("pm_privileges")) return abi::kInsufficientPrivileges;
  if (gpu_sim::counters_are_busy()) return abi::kHardwareBusy;
  std::lock_guard<std::mutex> lock(mutex);
  for (auto& [object, state] : states) {
    if (state->device == params->device) illegal("PM sampling of a device enabled twice");
  }
  auto* state = new State;
  state->device = uint32_t(params->device);
  states[state] = state;
  params->sampler = state;
  return abi::kSuccess;
}

abi::Result cuptiPmSamplingDisable(abi::PmParams* params) {
  check_params(params, "cuptiPmSamplingDisable");
  std::lock_guard<std::mutex> lock(mutex);
  State* state = state_of(params->sampler);
  if (state->is_started) illegal("PM sampling disabled while it runs");
  states.erase(params->sampler);
  delete state;
  return abi::kSuccess;
}

abi::Result cuptiPmSamplingGetCounterAvailability(abi::PmAvailabilityParams* params) {
  check_params(params, "cuptiPmSamplingGetCounterAvailability");
  if (params->image != nullptr && params->bytes != kAvailabilityBytes) {
    illegal("a counter availability image of another size");
  }
  params->bytes = kAvailabilityBytes;
  if (params->image != nullptr) memset(params->image, 1, kAvailabilityBytes);
  return abi::kSuccess;
}

abi::Result cuptiPmSamplingSetConfig(abi::PmConfigureParams* params) {
  check_params(params, abi::pm_configure_bytes(kVersion), "cuptiPmSamplingSetConfig");
  gpu_sim::check_config(params->config, params->config_bytes, ProfilerType::kPmSampling);
  std::lock_guard<std::mutex> lock(mutex);
  State* state = state_of(params->sampler);
  if (state->is_started) illegal("PM sampling configured while it runs");
  if (params->hardware_buffer_bytes < 1 << 20) illegal("a hardware buffer of less than 1 MB");
  if (params->interval < 1000) illegal("an interval of less than 1000");
  bool has_time = strcmp(gpu_sim::chip(), "GA100") != 0 && strncmp(gpu_sim::chip(), "TU", 2) != 0;
  bool by_time = params->trigger == abi::PmTrigger::kNanoseconds;
  if (by_time && !has_time) return abi::kNotSupported;
  state->interval_ns = by_time ? params->interval : params->interval * 2 / 3;
  state->is_configured = true;
  return abi::kSuccess;
}

abi::Result cuptiPmSamplingGetCounterDataSize(abi::PmImageSizeParams* params) {
  check_params(params, "cuptiPmSamplingGetCounterDataSize");
  std::lock_guard<std::mutex> lock(mutex);
  state_of(params->sampler);
  if (params->count == 0 || params->most_samples == 0) illegal("an image for nothing");
  params->bytes = Image::bytes(params->most_samples);
  return abi::kSuccess;
}

abi::Result cuptiPmSamplingCounterDataImageInitialize(abi::PmImageInitializeParams* params) {
  check_params(params, "cuptiPmSamplingCounterDataImageInitialize");
  auto* image = reinterpret_cast<Image*>(params->image);
  image->magic = Image::kMagic;
  image->type = ProfilerType::kPmSampling;
  image->most = uint32_t((params->bytes - sizeof(Image)) / sizeof(ImageEntry));
  image->count = 0;
  return abi::kSuccess;
}

abi::Result cuptiPmSamplingStart(abi::PmParams* params) {
  check_params(params, "cuptiPmSamplingStart");
  std::lock_guard<std::mutex> lock(mutex);
  State* state = state_of(params->sampler);
  if (!state->is_configured) illegal("PM sampling started that was not configured");
  if (state->is_started) illegal("PM sampling started twice");
  if (!state->samples.empty()) illegal("PM sampling started before all was decoded");
  state->is_started = true;
  state->start_ns = gpu_sim_now();
  state->ran.clear();
  started++;
  return abi::kSuccess;
}

abi::Result cuptiPmSamplingStop(abi::PmParams* params) {
  check_params(params, "cuptiPmSamplingStop");
  std::lock_guard<std::mutex> lock(mutex);
  State* state = state_of(params->sampler);
  if (!state->is_started) illegal("PM sampling stopped that was not started");
  state->is_started = false;
  started--;
  take(state);
  return abi::kSuccess;
}

abi::Result cuptiPmSamplingDecodeData(abi::PmDecodeParams* params) {
  check_params(params, abi::kPmDecodeBytes, "cuptiPmSamplingDecodeData");
  std::lock_guard<std::mutex> lock(mutex);
  State* state = state_of(params->sampler);
  Image* image = gpu_sim::image_in(params->image, params->image_bytes, ProfilerType::kPmSampling);
  size_t count = std::min<size_t>(image->most - image->count, state->samples.size());
  for (size_t i = 0; i < count; i++) image->entries[image->count++] = state->samples[i];
  state->samples.erase(state->samples.begin(), state->samples.begin() + long(count));
  params->stop =
      state->samples.empty() ? abi::PmDecodeStop::kEndOfRecords : abi::PmDecodeStop::kImageFull;
  params->overflow = state->overflow ? 1 : 0;
  return abi::kSuccess;
}

abi::Result cuptiPmSamplingGetCounterDataInfo(abi::PmImageInfoParams* params) {
  check_params(params, "cuptiPmSamplingGetCounterDataInfo");
  Image* image = gpu_sim::image_in(const_cast<uint8_t*>(params->image), params->image_bytes,
                                   ProfilerType::kPmSampling);
  params->total = image->most;
  params->populated = params->completed = image->count;
  return abi::kSuccess;
}

abi::Result cuptiPmSamplingCounterDataGetSampleInfo(abi::PmSampleInfoParams* params) {
  check_params(params, "cuptiPmSamplingCounterDataGetSampleInfo");
  Image* image = gpu_sim::image_in(const_cast<uint8_t*>(params->image), params->image_bytes,
                                   ProfilerType::kPmSampling);
  if (params->index >= image->count) illegal("a sample that is not in the image");
  params->start = image->entries[params->index].start_ns;
  params->end = image->entries[params->index].end_ns;
  return abi::kSuccess;
}

}  // extern "C"
