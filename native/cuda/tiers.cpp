// native/cuda/tiers.cpp
#include "cuda/tiers.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/cupti_abi.h"
#include "provider/provider_api.h"

namespace pilotlight::cupti {

uint32_t tier_by_name(const char* name) noexcept {
  if (name == nullptr) return kTierDefault;
  if (strcmp(name, "off") == 0 || strcmp(name, "0") == 0) return kTierOff;
  if (strcmp(name, "launches") == 0) return kTierLaunches;
  if (strcmp(name, "nodes") == 0) return kTierNodes;
  if (strcmp(name, "all") == 0) return kTierAll;
  return kTierDefault;
}

uint32_t width_of(uint32_t tier) noexcept {
  constexpr uint32_t kWidths[] = {0, 1, 2, 3, 0, 4, 5, 6, 7};
  return tier < sizeof(kWidths) / sizeof(kWidths[0]) ? kWidths[tier] : 0;
}

GovernorSettings settings_by_environment() noexcept {
  GovernorSettings settings;
  const char* ceiling = getenv("PILOTLIGHT_GPU_CEILING");
  double ratio = ceiling != nullptr ? atof(ceiling) : 0;
  if (ratio > 0 && ratio <= 1) settings.ceiling_ratio = ratio;
  const char* period = getenv("PILOTLIGHT_GPU_PERIOD");
  double seconds = period != nullptr ? atof(period) : 0;
  if (seconds >= 0.01 && seconds <= 600) {
    settings.period_ns = static_cast<int64_t>(seconds * 1e9);
  }
  return settings;
}

bool is_external_wanted() noexcept {
  const char* wish = getenv("PILOTLIGHT_GPU_EXTERNAL");
  return wish != nullptr && strcmp(wish, "1") == 0;
}

const char* words_of(int result) noexcept {
  switch (result) {
    case kHardwareBusy:
      return " (another program has the hardware counters)";
    case kInsufficientPrivileges:
      return " (no permission)";
    case 33:
    case 40:
      return " (not on this vGPU)";
    case 41:
      return " (not under confidential computing)";
    case 42:
      return " (not on a CMP card)";
    case 43:
      return " (not on this MIG device)";
    case 45:
      return " (not under WSL)";
    case kNotSupported:
      return " (not on this device, or too late)";
    case kInvalidChip:
      return " (this libcupti does not know the device)";
    case kNoFunctions:
      return " (this libcupti has no such functions)";
    case kNoMetrics:
      return " (this device has none of the metrics)";
    case 47:
      return " (not under MPS)";
    default:
      return "";
  }
}

}  // namespace pilotlight::cupti
