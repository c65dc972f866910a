// native/cuda/device_sampler.cpp
#include "cuda/device_sampler.h"

#include <dlfcn.h>

namespace pilotlight::cupti {

void DeviceSampler::open(Library* library, const ProviderApi* api, const GpuClock* clock) noexcept {
  library_ = library;
  api_ = api;
  clock_ = clock;
  // Some may have ended while nobody looked.
  for (auto& noted : noted_) noted.store(nullptr);
  refused_ = find_functions() ? kSuccess : kNoFunctions;
}

void DeviceSampler::note(Context context) noexcept {
  if (context == nullptr) return;
  for (auto& noted : noted_) {
    Context known = noted.load(std::memory_order_relaxed);
    if (known == context) return;
    if (known == nullptr && noted.compare_exchange_strong(known, context)) return;
    if (known == context) return;
  }
}

void DeviceSampler::forget(Context context) noexcept { remove(context); }

void DeviceSampler::remove(Context context) noexcept {
  for (auto& noted : noted_) {
    Context known = context;
    noted.compare_exchange_strong(known, nullptr);
  }
}

void DeviceSampler::abandon(Context context) noexcept {
  for (auto& abandoned : abandoned_) {
    Context none = nullptr;
    if (abandoned.compare_exchange_strong(none, context)) return;
  }
}

Context DeviceSampler::take_abandoned() noexcept {
  for (auto& abandoned : abandoned_) {
    Context gone = abandoned.exchange(nullptr);
    if (gone == nullptr) continue;
    remove(gone);
    return gone;
  }
  return nullptr;
}

int (*set_current_context() noexcept)(Context) {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  if (driver == nullptr) return nullptr;
  auto set = reinterpret_cast<int (*)(Context)>(dlsym(driver, "cuCtxSetCurrent"));
  dlclose(driver);
  return set;
}

}  // namespace pilotlight::cupti
