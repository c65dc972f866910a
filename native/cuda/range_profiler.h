// native/cuda/range_profiler.h: T2, what each kernel asks of the units of its device: CUPTI's range
// profiler of the contexts that launch work, each kernel a range. Kernels run one after the other
// while it is on, so a window ends after a few of them.
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/device_sampler.h"
#include "cuda/metric_set.h"
#include "cuda/range_profiler_abi.h"

namespace pilotlight::cupti {

struct RangeCounts {
  uint64_t kernels = 0;       // written
  uint64_t dropped = 0;       // CUPTI had no room for them
  uint64_t lost = 0;          // found no room in the ring, or could not be read
  uint64_t unnamed = 0;       // written, but which kernel it was is not known
  uint64_t contexts_out = 0;  // found no place
};

class RangeProfiler final : public DeviceSampler {
 public:
  Result start() noexcept override;
  void stop() noexcept override;
  void close() noexcept override;
  void forget(Context context) noexcept override;
  bool launches(Context context, const char* kernel) noexcept override;
  void launched() noexcept override;
  bool is_full() const noexcept override;
  const RangeCounts& counts() const noexcept { return counts_; }

 private:
  static constexpr uint32_t kMostRanges = 64;  // in a window

  struct Profiled {
    std::atomic<Context> context;
    void* profiler;
    bool is_started;
    uint32_t device;
    uint32_t track;
    uint64_t start_ticks;
    MetricSet metrics;
    uint32_t labels[MetricSet::kMost];  // strings
    uint8_t* availability;
    uint8_t* image;
    size_t image_bytes;
    // In the order of their launches in this window.
    std::atomic<uint32_t> launched;
    std::atomic<uint32_t> kernels[kMostRanges];
  };

  bool find_functions() noexcept override;
  Result begin(Context context) noexcept;
  Result prepare(Profiled* profiled) noexcept;
  Result read_availability(Profiled* profiled) noexcept;
  Result make_image(Profiled* profiled) noexcept;
  Result start_one(Profiled* profiled) noexcept;
  void stop_one(Profiled* profiled) noexcept;
  Result read(Profiled* profiled) noexcept;
  void write(Profiled* profiled, size_t place, uint32_t kernel) noexcept;
  void end(Profiled* profiled) noexcept;

  // Around starts and stops: a launch that is under way then may be profiled or not.
  void begin_edge() noexcept;

  bool has_begun_ = false;
  std::atomic<uint32_t> opening_{0};
  std::atomic<int32_t> launching_{0};
  std::atomic<bool> is_edge_{false};
  std::atomic<bool> is_unsure_{false};
  uint64_t ordinal_ = 0;  // of kernels, so that their values can be put together
  ProfilerTarget target_ = {};
  Profiled contexts_[kContexts] = {};
  RangeCounts counts_;

  Result (*enable_)(RangeEnableParams*) = nullptr;
  Result (*disable_)(RangeParams*) = nullptr;
  Result (*configure_)(RangeConfigureParams*) = nullptr;
  Result (*start_)(RangeParams*) = nullptr;
  Result (*stop_)(RangeStopParams*) = nullptr;
  Result (*decode_)(RangeDecodeParams*) = nullptr;
  Result (*image_size_)(RangeImageSizeParams*) = nullptr;
  Result (*image_initialize_)(RangeImageInitializeParams*) = nullptr;
  Result (*image_info_)(RangeImageInfoParams*) = nullptr;
  Result (*availability_)(ContextAvailabilityParams*) = nullptr;
  Result (*device_of_)(Context, uint32_t*) = nullptr;
  int (*set_current_)(Context) = nullptr;
};

}  // namespace pilotlight::cupti
