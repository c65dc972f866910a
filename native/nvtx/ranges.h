// native/nvtx/ranges.h: what is open: a stack a thread for push and pop, a table for start and end.
#pragma once

#include <cstdint>

#include "nvtx/names.h"

namespace pilotlight::nvtx {

constexpr uint32_t kMaxDepth = 256;
constexpr uint32_t kMaxStarted = 4096;  // a power of two

// Both return the depth in the domain, as NVTX wants it; pop a negative number if nothing is open.
int push(const ProviderApi& api, Handle* domain, uint32_t name) noexcept;
int pop(const ProviderApi& api, Handle* domain) noexcept;

// 0: too many are open; counted.
RangeId start(const ProviderApi& api, uint32_t name, RangeId chained) noexcept;
// Returns what the tool behind us calls the range; 0: none.
RangeId end(const ProviderApi& api, RangeId id) noexcept;

uint64_t ranges_lost() noexcept;

}  // namespace pilotlight::nvtx
