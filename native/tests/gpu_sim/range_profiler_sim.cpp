// native/tests/gpu_sim/range_profiler_sim.cpp: CUPTI's Range Profiler API, simulated: each kernel
// of a context a range. Strict: order of calls, sizes of structures, images and configurations.
#include <algorithm>
#include <atomic>
#include <map>
#include <mutex>

#include "cuda/range_profiler_abi.h"
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

constexpr size_t kAvailabilityBytes = 48;

struct State {
  void* context = nullptr;
  uint32_t uid = 0;
  bool is_configured = false, is_started = false;
  Image* image = nullptr;
  size_t most = 0;
  std::vector<ImageEntry> ranges;
  size_t dropped = 0;
};

std::mutex mutex;
std::map<void*, State*> states;
std::atomic<uint32_t> started{0};

State* state_of(void* profiler) {
  auto found = states.find(profiler);
  if (found == states.end()) illegal("a range profiler object that is none");
  uint32_t uid = 0, device = 0;
  if (!gpu_sim_context(found->second->context, &uid, &device)) {
    illegal("the range profiler of a context gone");
  }
  return found->second;
}

}  // namespace

namespace gpu_sim {

void range_profiler_sees(const Work& kernel) {
  if (started.load(std::memory_order_relaxed) == 0) return;
  std::lock_guard<std::mutex> lock(mutex);
  for (auto& [object, state] : states) {
    if (!state->is_started || state->uid != kernel.context) continue;
    if (state->ranges.size() == state->most) {
      state->dropped++;
    } else {
      state->ranges.push_back({kernel.start_ns, kernel.end_ns, units_of(kernel)});
    }
  }
}

void range_profiler_context_ends(void* context) {
  std::lock_guard<std::mutex> lock(mutex);
  for (auto& [object, state] : states) {
    if (state->context == context) illegal("a context ends that is being profiled");
  }
}

}  // namespace gpu_sim

extern "C" {

abi::Result cuptiProfilerGetCounterAvailability(abi::ContextAvailabilityParams* params) {
  check_params(params, abi::context_availability_bytes(kVersion),
               "cuptiProfilerGetCounterAvailability");
  if (!gpu_sim::profiler_is_initialized()) return abi::kNotInitialized;
  if (params->image != nullptr && params->bytes != kAvailabilityBytes) {
    illegal("a counter availability image of another size");
  }
  params->bytes = kAvailabilityBytes;
  if (params->image != nullptr) memset(params->image, 1, kAvailabilityBytes);
  return abi::kSuccess;
}

abi::Result cuptiRangeProfilerEnable(abi::RangeEnableParams* params) {
  check_params(params, abi::range_enable_bytes(kVersion), "cuptiRangeProfilerEnable");
  if (!gpu_sim::profiler_is_initialized()) return abi::kNotInitialized;
  if (has_trap("range_privileges")) return abi::kInsufficientPrivileges;
  if (gpu_sim::counters_are_busy()) return abi::kHardwareBusy;
  if (gpu_sim::kernel_records_on()) illegal("the range profiler beside kernel records");
  std::lock_guard<std::mutex> lock(mutex);
  auto* state = new State;
  uint32_t device = 0;
  if (!gpu_sim_context(params->context, &state->uid, &device)) {
    illegal("the range profiler of a context gone");
  }
  for (auto& [object, other] : states) {
    if (other->context == params->context) illegal("the range profiler enabled twice");
  }
  state->context = params->context;
  states[state] = state;
  params->profiler = state;
  return abi::kSuccess;
}

abi::Result cuptiRangeProfilerDisable(abi::RangeParams* params) {
  check_params(params, "cuptiRangeProfilerDisable");
  std::lock_guard<std::mutex> lock(mutex);
  State* state = state_of(params->profiler);
  if (state->is_started) illegal("the range profiler disabled while it runs");
  states.erase(params->profiler);
  delete state;
  return abi::kSuccess;
}

abi::Result cuptiRangeProfilerGetCounterDataSize(abi::RangeImageSizeParams* params) {
  check_params(params, "cuptiRangeProfilerGetCounterDataSize");
  std::lock_guard<std::mutex> lock(mutex);
  state_of(params->profiler);
  if (params->count == 0 || params->most_ranges == 0) illegal("an image for nothing");
  if (params->most_nodes < params->most_ranges) illegal("fewer nodes than ranges");
  params->bytes = Image::bytes(uint32_t(params->most_ranges));
  return abi::kSuccess;
}

abi::Result cuptiRangeProfilerCounterDataImageInitialize(abi::RangeImageInitializeParams* params) {
  check_params(params, "cuptiRangeProfilerCounterDataImageInitialize");
  auto* image = reinterpret_cast<Image*>(params->image);
  image->magic = Image::kMagic;
  image->type = ProfilerType::kRange;
  image->most = uint32_t((params->bytes - sizeof(Image)) / sizeof(ImageEntry));
  image->count = 0;
  return abi::kSuccess;
}

abi::Result cuptiRangeProfilerSetConfig(abi::RangeConfigureParams* params) {
  check_params(params, abi::kRangeConfigureBytes, "cuptiRangeProfilerSetConfig");
  gpu_sim::check_config(params->config, params->config_bytes, ProfilerType::kRange);
  std::lock_guard<std::mutex> lock(mutex);
  State* state = state_of(params->profiler);
  if (state->is_started) illegal("the range profiler configured while it runs");
  state->image = gpu_sim::image_in(params->image, params->image_bytes, ProfilerType::kRange);
  bool by_kernel = params->range == abi::RangeMode::kEachKernel &&
                   params->replay == abi::ReplayMode::kKernel && params->nesting_levels == 1;
  if (!by_kernel) illegal("a way of ranges that is not simulated");
  if (params->most_ranges == 0 || params->most_ranges > state->image->most) {
    illegal("more ranges than the image has room for");
  }
  state->most = params->most_ranges;
  state->is_configured = true;
  return abi::kSuccess;
}

abi::Result cuptiRangeProfilerStart(abi::RangeParams* params) {
  check_params(params, "cuptiRangeProfilerStart");
  std::lock_guard<std::mutex> lock(mutex);
  State* state = state_of(params->profiler);
  if (!state->is_configured) illegal("the range profiler started that was not configured");
  if (state->is_started) illegal("the range profiler started twice");
  if (gpu_sim::kernel_records_on()) illegal("the range profiler beside kernel records");
  state->is_started = true;
  state->ranges.clear();
  state->dropped = 0;
  started++;
  return abi::kSuccess;
}

abi::Result cuptiRangeProfilerStop(abi::RangeStopParams* params) {
  check_params(params, abi::kRangeStopBytes, "cuptiRangeProfilerStop");
  std::lock_guard<std::mutex> lock(mutex);
  State* state = state_of(params->profiler);
  if (!state->is_started) illegal("the range profiler stopped that was not started");
  state->is_started = false;
  state->is_configured = false;  // each session has an image of its own
  started--;
  params->is_complete = 1;
  return abi::kSuccess;
}

abi::Result cuptiRangeProfilerDecodeData(abi::RangeDecodeParams* params) {
  check_params(params, "cuptiRangeProfilerDecodeData");
  std::lock_guard<std::mutex> lock(mutex);
  State* state = state_of(params->profiler);
  if (state->is_started) illegal("ranges decoded before the range profiler was stopped");
  for (const ImageEntry& range : state->ranges) {
    state->image->entries[state->image->count++] = range;
  }
  state->ranges.clear();
  params->dropped = state->dropped;
  return abi::kSuccess;
}

abi::Result cuptiRangeProfilerGetCounterDataInfo(abi::RangeImageInfoParams* params) {
  check_params(params, "cuptiRangeProfilerGetCounterDataInfo");
  Image* image = gpu_sim::image_in(const_cast<uint8_t*>(params->image), params->image_bytes,
                                   ProfilerType::kRange);
  params->total = image->count;
  return abi::kSuccess;
}

}  // extern "C"
