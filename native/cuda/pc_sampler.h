// native/cuda/pc_sampler.h: T2, where kernels stall: CUPTI's PC sampling of the contexts that
// launch work, in windows, on demand only.
#pragma once

#include <cstdint>

#include "cuda/device_sampler.h"
#include "cuda/pc_sampling_abi.h"

namespace pilotlight::cupti {

struct PcCounts {
  uint64_t samples = 0;       // of the job's kernels, written
  uint64_t dropped = 0;       // that the hardware had no room for
  uint64_t other = 0;         // of kernels that CUPTI does not show
  uint64_t lost = 0;          // found no room in the ring
  uint64_t contexts_out = 0;  // left out: CUPTI samples one of a device, and we as many as fit
};

class PcSampler final : public DeviceSampler {
 public:
  Result start() noexcept override;
  void stop() noexcept override;
  void close() noexcept override;
  void forget(Context context) noexcept override;
  const PcCounts& counts() const noexcept { return counts_; }

 private:
  static constexpr uint32_t kMaxReasons = 96;
  static constexpr uint32_t kRecordsAtOnce = 1024;
  static constexpr uint32_t kSums = 2048;

  // Room for what CUPTI writes.
  struct Buffer {
    PcData data;
    uint8_t* memory;
  };
  struct Sampled {
    Context context;
    uint32_t device;
    uint32_t track;
    bool is_started;
    uint32_t reasons;
    uint32_t names[kMaxReasons];  // strings, by the place in `indices`
    uint32_t indices[kMaxReasons];
    Buffer own;  // CUPTI's for as long as it samples
  };
  // Of one function and one reason to stall, in this window.
  struct Sum {
    uint64_t crc;
    uint32_t function, reason;
    uint64_t samples;
    uint64_t hottest_offset;
    uint32_t hottest_samples;
  };

  bool find_functions() noexcept override;
  Result begin(Context context) noexcept;
  Result configure(Sampled* sampled) noexcept;
  bool name_reasons(Sampled* sampled) noexcept;
  void end(Sampled* sampled) noexcept;
  void pause(Sampled* sampled) noexcept;
  bool allocate(Buffer* buffer, uint32_t reasons) noexcept;
  void read(Sampled* sampled) noexcept;
  void add(Sampled* sampled, const PcData& data) noexcept;
  void add_one(Sampled* sampled, uint64_t crc, uint32_t function, uint64_t offset,
               const StallSamples& stall) noexcept;
  void write(Sampled* sampled) noexcept;

  uint64_t window_ticks_ = 0;
  Sampled contexts_[kContexts] = {};
  Buffer out_ = {};
  Sum* sums_ = nullptr;
  PcCounts counts_;

  Result (*enable_)(PcContextParams*) = nullptr;
  Result (*disable_)(PcContextParams*) = nullptr;
  Result (*start_)(PcContextParams*) = nullptr;
  Result (*stop_)(PcContextParams*) = nullptr;
  Result (*configure_)(PcConfigureParams*) = nullptr;
  Result (*count_reasons_)(PcCountReasonsParams*) = nullptr;
  Result (*get_reasons_)(PcGetReasonsParams*) = nullptr;
  Result (*get_data_)(PcGetDataParams*) = nullptr;
  Result (*device_of_)(Context, uint32_t*) = nullptr;
  int (*set_current_)(Context) = nullptr;
};

}  // namespace pilotlight::cupti
