// native/cuda/metric_set.cpp
#include "cuda/metric_set.h"

#include <stdlib.h>

#include <algorithm>

namespace pilotlight::cupti {
namespace {

constexpr size_t kMostConfigBytes = 64u << 20;

}  // namespace

bool MetricSet::find_functions(const Library& library) noexcept {
  version_ = library.facts().version;
  return library.find("cuptiProfilerHostInitialize", &initialize_) &&
         library.find("cuptiProfilerHostDeinitialize", &deinitialize_) &&
         library.find("cuptiProfilerHostConfigAddMetrics", &add_metrics_) &&
         library.find("cuptiProfilerHostGetConfigImageSize", &config_size_) &&
         library.find("cuptiProfilerHostGetConfigImage", &get_config_) &&
         library.find("cuptiProfilerHostGetNumOfPasses", &passes_) &&
         library.find("cuptiProfilerHostEvaluateToGpuValues", &evaluate_);
}

Result MetricSet::open(ProfilerType type, const char* chip, const uint8_t* availability,
                       const Metric* metrics, uint32_t count) noexcept {
  type_ = type;
  chip_ = chip;
  availability_ = availability;
  count_ = 0;
  // A chip has neither all metrics nor room for all of them at once: each is tried with those
  // before it.
  for (uint32_t i = 0; i < count && count_ < kMost; i++) {
    for (const char* name : metrics[i].names) {
      if (name == nullptr) continue;
      names_[count_] = name;
      labels_[count_] = metrics[i].label;
      Host built = {};
      size_t passes = 0;
      Result result = build(count_ + 1, &built, &passes);
      if (built.object == nullptr) {
        close();
        // Before CUDA 13 it has no name of its own, and nothing else here can be wrong.
        return result == kInvalidParameter ? kInvalidChip : result;
      }
      if (result != kSuccess || passes != 1) {
        end(&built);
        continue;
      }
      Host before = {host_, config_, config_bytes_};
      end(&before);
      host_ = built.object;
      config_ = built.config;
      config_bytes_ = built.config_bytes;
      count_++;
      break;
    }
  }
  return count_ != 0 ? kSuccess : kNoMetrics;
}

// Of the first `count` names. No object: not even an empty one can be had.
Result MetricSet::build(uint32_t count, Host* built, size_t* passes) noexcept {
  HostInitializeParams initialize = {};
  initialize.struct_bytes = host_initialize_bytes(version_);
  initialize.type = type_;
  initialize.chip = chip_;
  initialize.availability = availability_;
  Result result = initialize_(&initialize);
  if (result != kSuccess) return result;
  built->object = initialize.host;
  HostAddMetricsParams add = {sizeof(add), nullptr, built->object, names_, count};
  result = add_metrics_(&add);
  if (result != kSuccess) return result;
  HostConfigSizeParams size = {sizeof(size), nullptr, built->object, 0};
  result = config_size_(&size);
  if (result != kSuccess) return result;
  if (size.bytes == 0 || size.bytes > kMostConfigBytes) return kOutOfMemory;
  built->config = static_cast<uint8_t*>(calloc(1, size.bytes));
  if (built->config == nullptr) return kOutOfMemory;
  built->config_bytes = size.bytes;
  HostConfigParams config = {sizeof(config), nullptr, built->object, size.bytes, built->config};
  result = get_config_(&config);
  if (result != kSuccess) return result;
  HostPassesParams count_passes = {sizeof(count_passes), nullptr, size.bytes, built->config, 0};
  result = passes_(&count_passes);
  *passes = count_passes.passes;
  return result;
}

void MetricSet::end(Host* host) noexcept {
  free(host->config);
  if (host->object == nullptr) return;
  HostParams params = {sizeof(params), nullptr, host->object};
  deinitialize_(&params);
}

void MetricSet::close() noexcept {
  Host host = {host_, config_, config_bytes_};
  end(&host);
  host_ = nullptr;
  config_ = nullptr;
  config_bytes_ = 0;
  count_ = 0;
}

Result MetricSet::evaluate(const uint8_t* image, size_t bytes, size_t index,
                           double* values) noexcept {
  std::fill(values, values + count_, 0.0);
  HostEvaluateParams params = {sizeof(params), nullptr, host_,  image, bytes,
                               index,          names_,  count_, values};
  return evaluate_(&params);
}

bool ProfilerTarget::find_functions(const Library& library) noexcept {
  return library.find("cuptiProfilerInitialize", &initialize) &&
         library.find("cuptiProfilerDeInitialize", &deinitialize) &&
         library.find("cuptiDeviceGetChipName", &chip_name);
}

Result ProfilerTarget::begin() const noexcept {
  ProfilerParams params = {sizeof(params), nullptr};
  return initialize(&params);
}

void ProfilerTarget::end() const noexcept {
  ProfilerParams params = {sizeof(params), nullptr};
  deinitialize(&params);
}

const char* ProfilerTarget::chip_of(uint32_t device, Result* result) const noexcept {
  ChipNameParams params = {sizeof(params), nullptr, device, nullptr};
  *result = chip_name(&params);
  if (*result == kSuccess && params.name == nullptr) *result = kInvalidChip;
  return *result == kSuccess ? params.name : nullptr;
}

}  // namespace pilotlight::cupti
