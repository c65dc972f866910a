// native/cuda/tiers.cpp
#include "cuda/tiers.h"

#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/cupti_abi.h"
#include "provider/provider_api.h"

namespace pilotlight::cupti {
namespace {

constexpr double kLeastPeriodS = 0.01, kMostPeriodS = 600;

bool is_set(const char* text) noexcept { return text != nullptr && text[0] != 0; }

// With a point, whatever the program's language writes there. 0: it is no number.
double number_of(const char* text) noexcept {
  locale_t plain = is_set(text) ? newlocale(LC_NUMERIC_MASK, "C", nullptr) : nullptr;
  if (plain == nullptr) return 0;
  char* end = nullptr;
  double number = strtod_l(text, &end, plain);
  freelocale(plain);
  return *end == 0 ? number : 0;
}

bool is_ceiling(double ratio) noexcept { return ratio > 0 && ratio <= 1; }
bool is_period(double seconds) noexcept {
  return seconds >= kLeastPeriodS && seconds <= kMostPeriodS;
}

bool is_tier(const char* name) noexcept {
  return strcmp(name, "auto") == 0 || tier_by_name(name) != kTierDefault;
}

}  // namespace

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
  double ratio = number_of(getenv("PILOTLIGHT_GPU_CEILING"));
  if (is_ceiling(ratio)) settings.ceiling_ratio = ratio;
  double seconds = number_of(getenv("PILOTLIGHT_GPU_PERIOD"));
  if (is_period(seconds)) settings.period_ns = static_cast<int64_t>(seconds * 1e9);
  return settings;
}

Wishes not_understood() noexcept {
  Wishes wishes = {};
  const char* tier = getenv("PILOTLIGHT_GPU");
  if (is_set(tier) && !is_tier(tier)) {
    wishes[0] =
        "as asked, PILOTLIGHT_GPU is none of auto, off, launches, nodes and all: it is auto";
  }
  const char* ceiling = getenv("PILOTLIGHT_GPU_CEILING");
  if (is_set(ceiling) && !is_ceiling(number_of(ceiling))) {
    wishes[1] = "as asked, PILOTLIGHT_GPU_CEILING is no share above 0 and up to 1: it is 0.01";
  }
  const char* period = getenv("PILOTLIGHT_GPU_PERIOD");
  if (is_set(period) && !is_period(number_of(period))) {
    wishes[2] = "as asked, PILOTLIGHT_GPU_PERIOD is no number from 0.01 to 600: it is 1";
  }
  return wishes;
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
