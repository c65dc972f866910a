// native/cuda/device_sampler.h: T2, a way to ask the hardware for more, in windows, on demand only.
//
// All but note() and abandon() is called by one thread at a time (the collector's lock).
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/cupti_library.h"
#include "cuda/gpu_clock.h"
#include "provider/provider_api.h"

namespace pilotlight::cupti {

class DeviceSampler {
 public:
  void open(Library* library, const ProviderApi* api, const GpuClock* clock) noexcept;
  // A window. An error is kept, also one met while reading; contexts known by now are sampled.
  virtual Result start() noexcept = 0;
  virtual void stop() noexcept = 0;
  // Gives back what CUPTI holds for it, in the process and on the device.
  virtual void close() noexcept = 0;

  // On the application's threads: this context launches work.
  void note(Context context) noexcept;
  // It begins to launch this kernel, or with nullptr a graph; then it has. True: the window has all
  // that it can take.
  virtual bool launches(Context, const char*) noexcept { return false; }
  virtual void launched() noexcept {}
  virtual bool is_full() const noexcept { return false; }
  // It is about to end: what was sampled of it is written now.
  virtual void forget(Context context) noexcept;
  // It ends while it cannot be let go of: it is never touched again.
  void abandon(Context context) noexcept;

  void refuse(Result result) noexcept { refused_ = result; }
  Result refused() const noexcept { return refused_; }

 protected:
  ~DeviceSampler() = default;

  static constexpr uint32_t kContexts = 16;
  // One that was abandoned, no more among the noted ones; nullptr: there is none.
  Context take_abandoned() noexcept;
  // nullptr: there is none at this place.
  Context noted(uint32_t place) const noexcept {
    return noted_[place].load(std::memory_order_acquire);
  }

  Library* library_ = nullptr;
  const ProviderApi* api_ = nullptr;
  const GpuClock* clock_ = nullptr;
  Result refused_ = kSuccess;

 private:
  virtual bool find_functions() noexcept = 0;
  void remove(Context context) noexcept;
  std::atomic<Context> noted_[kContexts] = {};
  std::atomic<Context> abandoned_[kContexts] = {};
};

// The context that CUPTI may need to be the calling thread's, for as long as this lives.
class Current {
 public:
  Current(int (*set)(Context), Context context) noexcept : set_(set) {
    if (set_ != nullptr) set_(context);
  }
  ~Current() {
    if (set_ != nullptr) set_(nullptr);
  }

 private:
  int (*set_)(Context);
};
// The driver's, where it is loaded.
int (*set_current_context() noexcept)(Context);

}  // namespace pilotlight::cupti
