// native/nccl/event_mask.h: which events NCCL is asked for: as many as are cheap, or asked for.
#pragma once

#include "nccl/nccl_abi.h"
#include "provider/provider_api.h"

namespace pilotlight::nccl {

constexpr uint64_t kBasic = kColl | kP2p;
constexpr uint64_t kApi = kCollApi | kP2pApi;  // from v5 on
constexpr uint64_t kProxy = kProxyOp | kProxyStep;

// By a context of this version of the interface, now. The word is NCCL's own, for the mask.
int wanted_mask(const ProviderApi& probe, int version, const int* word) noexcept;
// One more of a kernel: where they are too many, they are not wanted for a while.
void count_kernel_event(const ProviderApi& probe) noexcept;
// A collective is captured into a CUDA graph: none after it is to have kernel events.
void note_capture(const ProviderApi& probe) noexcept;

}  // namespace pilotlight::nccl
