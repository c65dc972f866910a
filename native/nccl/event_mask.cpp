// native/nccl/event_mask.cpp
#include "nccl/event_mask.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

namespace pilotlight::nccl {
namespace {

constexpr int64_t kSecond = 1000000000;
constexpr int64_t kQuiet = 10 * kSecond;
constexpr uint32_t kMostKernelEvents = 20000;  // a second
// NCCL 2.31 made kernel events dear for messages of a few megabytes and less; before 2.26 there are
// none.
constexpr int kFirstCheap = 22602, kFirstDear = 23100;

int nccl_version() noexcept {
  using GetVersion = int(int*);
  auto* get = reinterpret_cast<GetVersion*>(dlsym(RTLD_DEFAULT, "ncclGetVersion"));
  int version = 0;
  return get != nullptr && get(&version) == kSuccess ? version : 0;
}

// Whether kernel events are cheap in this version of NCCL; PILOTLIGHT_NCCL_KERNELS=0 or 1 decides.
bool kernels_allowed(const ProviderApi& probe) noexcept {
  static const bool allowed = [&probe] {
    const char* chosen = getenv("PILOTLIGHT_NCCL_KERNELS");
    if (chosen != nullptr && chosen[0] != 0) return chosen[0] == '1';
    int version = nccl_version();
    bool is_cheap = version >= kFirstCheap && version < kFirstDear;
    if (!is_cheap) {
      char text[96];
      int bytes = snprintf(text, sizeof(text), "nccl/missing: kernel times (NCCL %d)", version);
      probe.mark(text, static_cast<size_t>(bytes), version);
    }
    return is_cheap;
  }();
  return allowed;
}

// Too many kernel events in a second: none for the next ten.
class Rate {
 public:
  void count(const ProviderApi& probe) noexcept {
    int64_t now = clock_ns(CLOCK_MONOTONIC);
    int64_t since = since_ns_.load(std::memory_order_relaxed);
    if (now - since > kSecond) {
      since_ns_.store(now, std::memory_order_relaxed);
      seen_.store(0, std::memory_order_relaxed);
    }
    if (seen_.fetch_add(1, std::memory_order_relaxed) == kMostKernelEvents) {
      quiet_until_ns_.store(now + kQuiet, std::memory_order_relaxed);
      probe.mark("nccl/kernels off: too many", 26, kMostKernelEvents);
    }
  }
  bool is_calm() const noexcept {
    int64_t until = quiet_until_ns_.load(std::memory_order_relaxed);
    return until == 0 || clock_ns(CLOCK_MONOTONIC) > until;
  }

 private:
  std::atomic<int64_t> since_ns_{0}, quiet_until_ns_{0};
  std::atomic<uint32_t> seen_{0};
};
Rate kernel_rate;

}  // namespace

int wanted_mask(const ProviderApi& probe, int version) noexcept {
  uint32_t tier = probe.tier->load(std::memory_order_relaxed);
  if (tier == kTierOff) return 0;
  uint64_t mask = kBasic;
  if (version >= 5) mask |= kApi;
  if (version >= 6) mask |= kCeColl;
  // On demand all of it, whatever it costs.
  bool is_asked = tier == kTierNodes || tier == kTierAll;
  if (is_asked) mask |= kProxy;
  bool has_kernels = is_asked || (tier != kTierLaunches && kernels_allowed(probe));
  if (version >= 3 && has_kernels && kernel_rate.is_calm()) mask |= kKernelCh;
  return static_cast<int>(mask);
}

void count_kernel_event(const ProviderApi& probe) noexcept { kernel_rate.count(probe); }

}  // namespace pilotlight::nccl
