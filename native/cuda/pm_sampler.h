// native/cuda/pm_sampler.h: T2, what the units of a device do from millisecond to millisecond:
// CUPTI's PM sampling of the devices that the process launches work on.
#pragma once

#include <cstdint>

#include "cuda/device_sampler.h"
#include "cuda/metric_set.h"
#include "cuda/pm_sampling_abi.h"

namespace pilotlight::cupti {

struct PmCounts {
  uint64_t samples = 0;      // of a device at a moment, written
  uint64_t cut_windows = 0;  // the device had no room for what came later in them
  uint64_t lost = 0;         // found no room in the ring, or could not be read
};

class PmSampler final : public DeviceSampler {
 public:
  Result start() noexcept override;
  void stop() noexcept override;
  void close() noexcept override;
  const PmCounts& counts() const noexcept { return counts_; }

 private:
  struct Sampled {
    void* sampler;  // nullptr: this place is free
    uint32_t device;
    bool is_started;
    bool is_configured;
    PmTrigger trigger;
    uint64_t interval_ns;
    uint64_t start_ticks;
    MetricSet metrics;
    uint32_t names[MetricSet::kMost];  // strings
    uint8_t* availability;
    uint8_t* image;
    size_t image_bytes;
  };

  bool find_functions() noexcept override;
  Result begin(Context context) noexcept;
  Result prepare(Sampled* sampled) noexcept;
  Result read_availability(Sampled* sampled) noexcept;
  Result configure(Sampled* sampled) noexcept;
  Result make_image(Sampled* sampled) noexcept;
  Result empty_image(Sampled* sampled) noexcept;
  void read(Sampled* sampled) noexcept;
  Result write(Sampled* sampled, uint64_t* first_ns) noexcept;
  void end(Sampled* sampled) noexcept;

  bool has_begun_ = false;
  ProfilerTarget target_ = {};
  Sampled devices_[kContexts] = {};
  PmCounts counts_;

  Result (*enable_)(PmEnableParams*) = nullptr;
  Result (*disable_)(PmParams*) = nullptr;
  Result (*configure_)(PmConfigureParams*) = nullptr;
  Result (*start_)(PmParams*) = nullptr;
  Result (*stop_)(PmParams*) = nullptr;
  Result (*decode_)(PmDecodeParams*) = nullptr;
  Result (*availability_)(PmAvailabilityParams*) = nullptr;
  Result (*image_size_)(PmImageSizeParams*) = nullptr;
  Result (*image_initialize_)(PmImageInitializeParams*) = nullptr;
  Result (*image_info_)(PmImageInfoParams*) = nullptr;
  Result (*sample_info_)(PmSampleInfoParams*) = nullptr;
  Result (*device_of_)(Context, uint32_t*) = nullptr;
};

}  // namespace pilotlight::cupti
