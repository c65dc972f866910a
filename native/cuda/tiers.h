// native/cuda/tiers.h: how much is collected, by what clients and the environment ask for.
#pragma once

#include <array>
#include <cstdint>

#include "cuda/governor.h"

namespace pilotlight::cupti {

// Of the variable PILOTLIGHT_GPU; kTierDefault where it says nothing that is known.
uint32_t tier_by_name(const char* name) noexcept;
// From narrow to wide: that a client asks for less takes nothing from the others.
uint32_t width_of(uint32_t tier) noexcept;
GovernorSettings settings_by_environment() noexcept;
// What the user asked for in the environment and does not get, in words; nullptr: nothing more.
using Wishes = std::array<const char*, 3>;
Wishes not_understood() noexcept;
// Whether ids that others pushed to CUPTI are to be recorded (PILOTLIGHT_GPU_EXTERNAL=1).
bool is_external_wanted() noexcept;
// What the number of a CUPTI error means, where it says more than that something failed.
const char* words_of(int result) noexcept;

}  // namespace pilotlight::cupti
