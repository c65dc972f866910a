// native/cuda/metric_set.h: the hardware metrics that one pass over a chip can collect: CUPTI's
// configuration for them, and their values.
#pragma once

#include <cstdint>

#include "cuda/cupti_library.h"
#include "cuda/profiler_host_abi.h"

namespace pilotlight::cupti {

// What we call it, and what CUPTI may call it, the best first.
struct Metric {
  const char* label;
  const char* names[2];
};

// What CUPTI may ask for in the job's memory to put values into, for each GPU; more is refused.
constexpr size_t kMostImageBytes = 16u << 20;

class MetricSet {
 public:
  static constexpr uint32_t kMost = 16;

  bool find_functions(const Library& library) noexcept;
  // As many of `metrics`, in their order, as fit in one pass. `availability` may be nullptr.
  Result open(ProfilerType type, const char* chip, const uint8_t* availability,
              const Metric* metrics, uint32_t count) noexcept;
  void close() noexcept;

  uint32_t count() const noexcept { return count_; }
  const char** names() noexcept { return names_; }
  const char* label(uint32_t place) const noexcept { return labels_[place]; }
  const uint8_t* config() const noexcept { return config_; }
  size_t config_bytes() const noexcept { return config_bytes_; }
  // Of one sample or range; `values` has room for count().
  Result evaluate(const uint8_t* image, size_t bytes, size_t index, double* values) noexcept;

 private:
  struct Host {
    void* object;
    uint8_t* config;
    size_t config_bytes;
  };
  Result build(uint32_t count, Host* built, size_t* passes) noexcept;
  void end(Host* host) noexcept;

  uint32_t version_ = 0;
  ProfilerType type_ = ProfilerType::kRange;
  const char* chip_ = nullptr;
  const uint8_t* availability_ = nullptr;
  uint32_t count_ = 0;
  const char* names_[kMost] = {};
  const char* labels_[kMost] = {};
  void* host_ = nullptr;
  uint8_t* config_ = nullptr;
  size_t config_bytes_ = 0;

  Result (*initialize_)(HostInitializeParams*) = nullptr;
  Result (*deinitialize_)(HostParams*) = nullptr;
  Result (*add_metrics_)(HostAddMetricsParams*) = nullptr;
  Result (*config_size_)(HostConfigSizeParams*) = nullptr;
  Result (*get_config_)(HostConfigParams*) = nullptr;
  Result (*passes_)(HostPassesParams*) = nullptr;
  Result (*evaluate_)(HostEvaluateParams*) = nullptr;
};

// Hardware that a CUPTI does not know, or that is not allowed, is found out with these.
struct ProfilerTarget {
  Result (*initialize)(ProfilerParams*);
  Result (*deinitialize)(ProfilerParams*);
  Result (*chip_name)(ChipNameParams*);

  bool find_functions(const Library& library) noexcept;
  Result begin() const noexcept;
  void end() const noexcept;
  // CUPTI's own text; nullptr: it does not say.
  const char* chip_of(uint32_t device, Result* result) const noexcept;
};

}  // namespace pilotlight::cupti
