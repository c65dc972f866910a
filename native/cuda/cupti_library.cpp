// native/cuda/cupti_library.cpp
#include "cuda/cupti_library.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <stdlib.h>

#include "provider/provider_api.h"

namespace pilotlight::cupti {
namespace {

constexpr uint32_t kVersion12_4 = 22;
constexpr uint32_t kVersion12_6 = 24;
constexpr uint32_t kVersion12_9 = 27;
constexpr uint32_t kVersion12_9U1 = 28;
constexpr uint32_t kVersion13_0 = 130000;
constexpr uint32_t kVersion13_0U1 = 130001;
constexpr uint32_t kVersion13_3 = 130300;
constexpr uint32_t kVersion13_4U1 = 130401;

}  // namespace

Facts facts_of(uint32_t version) noexcept {
  Facts facts;
  facts.version = version;
  facts.takes_no_null = version < kVersion12_9U1;
  facts.breaks_graphs = version < kVersion12_6;
  facts.cannot_toggle = version >= kVersion13_0 && version < kVersion13_0U1;
  facts.has_per_thread = version >= kVersion12_4;
  facts.is_per_thread = version >= kVersion13_0;
  facts.has_hardware_events = version >= kVersion13_4U1;
  // It came with 12.8 update 1, whose number 12.8 has too.
  facts.samples_beside = version >= kVersion12_9;
  return facts;
}

void* Library::symbol(const char* name) const noexcept {
  return library_ != nullptr ? dlsym(library_, name) : nullptr;
}

bool Library::try_load(const char* path) noexcept {
  library_ = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library_ == nullptr) return false;
  link_map* map = nullptr;
  if (dlinfo(library_, RTLD_DI_LINKMAP, &map) == 0 && map->l_name != nullptr) path = map->l_name;
  snprintf(path_, sizeof(path_), "%s", path);
  copies_ = 1;
  return true;
}

bool Library::find_loaded() noexcept {
  LoadedCuda loaded = loaded_cuda();
  copies_ = loaded.cuptis;
  if (loaded.cuptis == 0) return false;
  library_ = dlopen(loaded.cupti, RTLD_NOW | RTLD_NOLOAD);
  snprintf(path_, sizeof(path_), "%s", loaded.cupti);
  return library_ != nullptr;
}

// The places one after the other, from where the last search stopped.
bool Library::load() noexcept {
  if (!is_listed_) {
    is_listed_ = true;
    places_.clear();
    if (find_loaded()) return true;
    const char* chosen = getenv("PILOTLIGHT_CUPTI");
    if (chosen != nullptr && chosen[0] != 0) {
      places_.list_one(chosen);
    } else {
      std::string_view own = own_folder();
      places_.list(loaded_cuda().cudart, own.substr(0, own.rfind('/')));
    }
  }
  while (const char* path = places_.next()) {
    if (try_load(path)) return true;
  }
  return false;
}

bool Library::open_next() noexcept {
  if (is_kept_ || is_subscribed() || !places_.has_next()) return false;
  close();
  return open() == nullptr;
}

void Library::close() noexcept {
  dlclose(library_);
  library_ = nullptr;
  api_ = Api::kNone;
}

const char* Library::open() noexcept {
  if (is_open()) return nullptr;
  const char* why =
      "libcupti was not found; in the job's Python: pip install nvidia-cuda-cupti (for CUDA 12 "
      "nvidia-cuda-cupti-cu12), or name it in PILOTLIGHT_CUPTI";
  while (load()) {
    const char* refused = resolve();
    if (refused == nullptr) return nullptr;
    why = refused;
    close();
  }
  // All over again when it is asked for again: the program may have loaded one meanwhile.
  is_listed_ = false;
  return why;
}

const char* Library::resolve() noexcept {
  bool v1 =
      find("cuptiGetVersion", &version_) && find("cuptiGetTimestamp", &timestamp_) &&
      find("cuptiUnsubscribe", &unsubscribe_) && find("cuptiEnableCallback", &enable_callback_) &&
      find("cuptiActivityFlushAll", &flush_) && find("cuptiSubscribe", &subscribe_) &&
      find("cuptiActivityRegisterCallbacks", &register_) && find("cuptiActivityEnable", &enable_) &&
      find("cuptiActivityDisable", &disable_) && find("cuptiActivityGetNextRecord", &next_) &&
      find("cuptiActivityGetNumDroppedRecords", &dropped_);
  if (!v1) return "libcupti lacks functions that every version since 11 has";
  find("cuptiActivitySetAttribute", &set_attribute_);
  find("cuptiGetGraphNodeId", &graph_node_id_);
  find("cuptiGetContextId", &context_id_);
  find("cuptiGetDeviceId", &device_id_);
  find("cuptiFinalize", &finalize_);
  find("cuptiActivityEnableHWTrace", &hardware_trace_);
  find("cuptiActivityEnableDriverApi", &enable_driver_api_);
  find("cuptiActivityEnableRuntimeApi", &enable_runtime_api_);
  find("cuptiGetTimestamp_v2", &timestamp2_);
  uint32_t version = 0;
  if (version_(&version) != kSuccess)
    return "this libcupti does not work with this driver; `pilotlight doctor` says which one does";
  facts_ = facts_of(version);
  if (version < 18) return "libcupti is older than CUDA 11.8";
  // All or nothing: 13.0 exports cuptiSubscribe_v2 without the rest.
  bool v2 = find("cuptiSubscribe_v2", &subscribe2_) &&
            find("cuptiActivityRegisterCallbacks_v2", &register2_) &&
            find("cuptiActivityEnable_v2", &enable2_) &&
            find("cuptiActivityDisable_v2", &disable2_) &&
            find("cuptiActivityGetNextRecord_v2", &next2_) &&
            find("cuptiActivitySetAttribute_v2", &set_attribute2_) &&
            find("cuptiActivityGetNumDroppedRecords_v2", &dropped2_);
  api_ = v2 && version >= kVersion13_3 ? Api::kV2 : Api::kV1;
  return nullptr;
}

Result Library::subscribe(Callback callback, void* user) noexcept {
  other_[0] = 0;
  if (api_ == Api::kV2) {
    SubscriberParams params = {};
    params.struct_bytes = sizeof(params);
    params.name = "pilotlight";
    params.old_name = other_;
    params.old_name_bytes = sizeof(other_);
    params.allow_multiple = 1;
    Result result = subscribe2_(&subscriber_, callback, user, &params);
    if (result == kSuccess) return result;
    subscriber_ = nullptr;
    // A driver before r610, or a first subscriber who wants to be alone: as with old versions.
    api_ = Api::kV1;
  }
  Result result = subscribe_(&subscriber_, callback, user);
  if (result != kSuccess) subscriber_ = nullptr;
  return result;
}

Result Library::unsubscribe() noexcept {
  Subscriber subscriber = subscriber_;
  subscriber_ = nullptr;
  return subscriber != nullptr ? unsubscribe_(subscriber) : kInvalidOperation;
}

Result Library::enable_callback(bool on, Domain domain, uint32_t id) noexcept {
  return enable_callback_(on ? 1 : 0, subscriber_, domain, id);
}

Result Library::register_buffers(RequestBuffer request, CompleteBuffer complete,
                                 RequestBuffer2 request2, CompleteBuffer2 complete2) noexcept {
  if (api_ != Api::kV2) return register_(request, complete);
  uint8_t chosen = 1;
  chooses_fields_ = !fields_.has_failed() &&
                    set_attribute(kUserDefinedRecords, sizeof(chosen), &chosen) == kSuccess;
  return register2_(subscriber_, request2, complete2);
}

void Library::learn(const void* complete_info) noexcept {
  if (chooses_fields_) fields_.learn(static_cast<const CompleteInfo*>(complete_info));
}

Result Library::enable(Kind kind) noexcept {
  if (api_ != Api::kV2) return enable_(kind);
  if (!chooses_fields_) return enable2_(subscriber_, kind, nullptr);
  RecordFields::Selection selection;
  if (!RecordFields::select(kind, &selection)) return kInvalidKind;
  return enable2_(subscriber_, kind, &selection.config);
}

Result Library::show_nodes(bool nodes) noexcept {
  if (nodes) disable(kGraphTrace);
  Result result = kSuccess;
  if (api_ == Api::kV2) {
    uint8_t whole = nodes ? 0 : 1;
    result = set_attribute(kWholeGraphs, sizeof(whole), &whole);
  }
  // As it was, if it cannot be changed.
  bool wants_whole = nodes ? result != kSuccess : result == kSuccess;
  if (wants_whole) {
    Result enabled = enable(kGraphTrace);
    if (result == kSuccess) result = enabled;
  }
  return result;
}

Result Library::disable(Kind kind) noexcept {
  return api_ == Api::kV2 ? disable2_(subscriber_, kind, nullptr) : disable_(kind);
}

Result Library::enable_api(bool on, Domain domain, uint32_t id) noexcept {
  auto enable = domain == kDriver ? enable_driver_api_ : enable_runtime_api_;
  return enable != nullptr ? enable(id, on ? 1 : 0) : kUnknown;
}

Result Library::set_attribute(Attribute attribute, size_t bytes, void* value) noexcept {
  if (api_ == Api::kV2) return set_attribute2_(subscriber_, attribute, &bytes, value);
  return set_attribute_ != nullptr ? set_attribute_(attribute, &bytes, value) : kUnknown;
}

Result Library::enable_hardware_events() noexcept {
  uint8_t on = 1;
  if (api_ == Api::kV2) return set_attribute(kHardwareEvents, sizeof(on), &on);
  return hardware_trace_ != nullptr ? hardware_trace_(on) : kUnknown;
}

Result Library::flush(uint32_t flags) noexcept { return flush_(flags); }

Result Library::dropped(Context context, uint32_t stream, size_t* count) noexcept {
  *count = 0;
  return api_ == Api::kV2 ? dropped2_(subscriber_, context, stream, count)
                          : dropped_(context, stream, count);
}

Result Library::timestamp(uint64_t* ns) noexcept {
  // Of our subscriber: another one may have a clock of its own.
  if (api_ == Api::kV2 && timestamp2_ != nullptr) return timestamp2_(subscriber_, ns);
  return timestamp_(ns);
}

Result Library::graph_node_id(void* node, uint64_t* id) noexcept {
  return graph_node_id_ != nullptr ? graph_node_id_(node, id) : kUnknown;
}

Result Library::place_of(Context context, uint32_t* id, uint32_t* device) noexcept {
  if (context_id_ == nullptr || device_id_ == nullptr) return kUnknown;
  Result result = context_id_(context, id);
  return result == kSuccess ? device_id_(context, device) : result;
}

Result Library::finalize() noexcept { return finalize_ != nullptr ? finalize_() : kUnknown; }

}  // namespace pilotlight::cupti
