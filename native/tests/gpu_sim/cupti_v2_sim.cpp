// native/tests/gpu_sim/cupti_v2_sim.cpp: the functions of the simulated CUPTI that take a
// subscriber (13.3 on; 13.0 exports the first of them alone).
#include "cupti_client.h"

namespace abi = pilotlight::cupti;
using gpu_sim::Client;
using gpu_sim::client_of;
using gpu_sim::illegal;
using gpu_sim::kVersion;

extern "C" {

abi::Result cuptiGetTimestamp(uint64_t* ns);

// For tests: whether somebody has whole records of a kind on.
int gpu_sim_tells_whole(uint32_t kind) {
  for (const Client& client : gpu_sim::clients) {
    if (!client.chooses_fields && client.kinds[kind].load() != 0) return 1;
  }
  return 0;
}

abi::Result cuptiSubscribe_v2(void** subscriber, abi::Callback callback, void* user,
                              abi::SubscriberParams* params) {
  if (params != nullptr && params->struct_bytes != sizeof(abi::SubscriberParams)) {
    illegal("CUpti_SubscriberParams with a wrong structSize");
  }
  bool many = params != nullptr && params->allow_multiple != 0;
  if (many && kVersion < 130300) return abi::kMultipleSubscribers;
  return gpu_sim::add_client(subscriber, callback, user, true, many);
}

abi::Result cuptiActivityRegisterCallbacks_v2(void* subscriber, abi::RequestBuffer2 request,
                                              abi::CompleteBuffer2 complete) {
  Client* client = client_of(subscriber);
  if (!client->v2) return abi::kNotCompatible;
  client->request2 = request;
  client->complete2 = complete;
  gpu_sim::start_pump();
  return abi::kSuccess;
}

abi::Result cuptiActivityEnable_v2(void* subscriber, uint32_t kind,
                                   const abi::ActivityConfig* config) {
  Client* client = client_of(subscriber);
  if (!client->v2) return abi::kNotCompatible;
  if (kind >= gpu_sim::kKinds) return abi::kInvalidKind;
  if (client->chooses_fields) {
    gpu_sim::Layout layout;
    abi::Result result = gpu_sim::lay_out(kind, config, &layout);
    if (result != abi::kSuccess) return result;
    // Records of the former selection may be on their way.
    gpu_sim::Layout& known = client->layouts[kind];
    if (known.record_bytes != 0 && known.fields() != layout.fields()) {
      illegal("another selection of fields without a forced flush");
    }
    std::lock_guard<std::recursive_mutex> lock(client->mutex);
    if (known.record_bytes == 0) known = layout;
  }
  return gpu_sim::enable_kind(client, kind, true);
}

abi::Result cuptiActivityDisable_v2(void* subscriber, uint32_t kind, void*) {
  return gpu_sim::enable_kind(client_of(subscriber), kind, false);
}

abi::Result cuptiActivityGetNextRecord_v2(void* subscriber, uint8_t* buffer, size_t valid,
                                          abi::Activity** record) {
  return gpu_sim::next_record(*client_of(subscriber), buffer, valid, record);
}

abi::Result cuptiActivitySetAttribute_v2(void* subscriber, uint32_t attribute, size_t* bytes,
                                         void* value) {
  gpu_sim::check_caller("cuptiActivitySetAttribute_v2 inside a buffer callback");
  Client* client = client_of(subscriber);
  if (bytes == nullptr || value == nullptr || *bytes != 1) return abi::kInvalidParameter;
  bool on = *static_cast<uint8_t*>(value) != 0;
  switch (attribute) {
    case abi::kHardwareEvents:
      return gpu_sim::enable_hardware_events();
    case abi::kZeroedOutBuffer:
      client->zeroed = on;
      return abi::kSuccess;
    case abi::kUserDefinedRecords:
      if (gpu_sim::has_trap("no_fields")) return abi::kNotSupported;
      for (auto& kind : client->kinds) {
        if (kind.load() != 0) illegal("user-defined records after an activity kind was enabled");
      }
      client->chooses_fields = on;
      return abi::kSuccess;
    case abi::kWholeGraphs:
      // One for all, and only before any of them has anything on.
      if (gpu_sim::any_kind_on()) return abi::kInvalidOperation;
      gpu_sim::whole_graphs = on;
      return abi::kSuccess;
    default:
      return abi::kInvalidParameter;
  }
}

abi::Result cuptiActivityGetNumDroppedRecords_v2(void* subscriber, void*, uint32_t,
                                                 size_t* dropped) {
  *dropped = client_of(subscriber)->dropped.exchange(0);
  return abi::kSuccess;
}

abi::Result cuptiGetTimestamp_v2(void* subscriber, uint64_t* ns) {
  client_of(subscriber);
  return cuptiGetTimestamp(ns);
}

}  // extern "C"
