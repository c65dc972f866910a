// native/tests/gpu_sim/external_sim.cpp: ids of somebody else's that a thread is inside of.
#include "cupti_sim.h"

namespace abi = pilotlight::cupti;

namespace {

thread_local std::vector<gpu_sim::ExternalId> ids;

}  // namespace

namespace gpu_sim {

// The innermost of each kind.
std::vector<ExternalId> external_ids() {
  std::vector<ExternalId> found;
  for (uint32_t kind = 1; kind <= 5; kind++) {
    for (size_t i = ids.size(); i-- > 0;) {
      if (ids[i].kind != kind) continue;
      found.push_back(ids[i]);
      break;
    }
  }
  return found;
}

}  // namespace gpu_sim

extern "C" {

abi::Result cuptiActivityPushExternalCorrelationId(uint32_t kind, uint64_t id) {
  gpu_sim::check_caller("cuptiActivityPushExternalCorrelationId");
  if (kind < 1 || kind > 5) return abi::kInvalidParameter;
  ids.push_back({kind, id});
  return abi::kSuccess;
}

abi::Result cuptiActivityPopExternalCorrelationId(uint32_t kind, uint64_t* last) {
  gpu_sim::check_caller("cuptiActivityPopExternalCorrelationId");
  for (size_t i = ids.size(); i-- > 0;) {
    if (ids[i].kind != kind) continue;
    if (last != nullptr) *last = ids[i].id;
    ids.erase(ids.begin() + long(i));
    return abi::kSuccess;
  }
  return abi::kQueueEmpty;
}

}  // extern "C"
