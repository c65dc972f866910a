// native/nvtx/calls.h: what is done when a program calls NVTX: the functions that take the place of
// NVTX's own, each of which goes on to that of the tool behind us.
#pragma once

#include <cstddef>

#include "nvtx/nvtx_abi.h"
#include "provider/provider_api.h"

namespace pilotlight::nvtx {

struct Hook {
  uint32_t call;
  Function function;
};

struct Hooks {
  const Hook* hooks;
  size_t count;
  Function* behind;  // by call: what the tool behind us put there; nullptr: nothing
};

// Before any of them is called.
void use(const ProviderApi* api) noexcept;
Hooks core_calls() noexcept;   // of the default domain
Hooks core2_calls() noexcept;  // of any domain
Hooks sync_calls() noexcept;   // of locks

// The last of them, when the program ends.
void tell_all_losses() noexcept;

}  // namespace pilotlight::nvtx
