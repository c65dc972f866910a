// native/cuda/cupti_library.h: the libcupti of this process, found at run time, whatever version.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "cuda/cupti_abi.h"
#include "cuda/cupti_places.h"
#include "cuda/record_fields.h"

namespace pilotlight::cupti {

// V1 and V2 cannot be mixed in a process; V2 as a whole is there from 13.3 on only, 13.0 has a
// part.
enum class Api { kNone, kV1, kV2 };

// What is known of versions and their faults; docs/gpu.md has the table with its sources.
struct Facts {
  uint32_t version = 0;              // CUPTI_API_VERSION: 18 is 11.8, 28 is 12.9, 130001 is 13.0
  bool takes_no_null = true;         // crashes when no buffer is given (before 12.9)
  bool cannot_toggle = false;        // disabling kernel records may deadlock (13.0 GA)
  bool has_per_thread = false;       // a buffer per thread, if asked for
  bool is_per_thread = false;        // and by itself (from 13.0 on)
  bool has_hardware_events = false;  // without the faults that were mended until 13.4 update 1
  bool breaks_graphs = true;         // a job with graphs crashes after cuptiFinalize (before 12.6)
  bool samples_beside = false;       // PC sampling and kernel records in one process (12.9 on)
};
Facts facts_of(uint32_t version) noexcept;

// Each call returns CUPTI's own result, kUnknown where the library has no such function.
class Library {
 public:
  // nullptr, or in one line why there is none. Loads a library only if none is loaded yet, the
  // first one that answers.
  const char* open() noexcept;
  // This one does not work with the driver here: the next that can be found. False: there is none.
  bool open_next() noexcept;
  // From now on it is this one.
  void keep() noexcept { is_kept_ = true; }
  bool is_open() const noexcept { return api_ != Api::kNone; }
  Api api() const noexcept { return api_; }
  const Facts& facts() const noexcept { return facts_; }
  const char* path() const noexcept { return path_; }
  uint32_t copies() const noexcept { return copies_; }  // of libcupti in this process
  // The library's own function, for whoever watches calls of others.
  void* symbol(const char* name) const noexcept;
  // One that not every version has. False: this one has not.
  template <typename F>
  bool find(const char* name, F* function) const noexcept {
    *function = reinterpret_cast<F>(symbol(name));
    return *function != nullptr;
  }

  Result subscribe(Callback callback, void* user) noexcept;
  Result unsubscribe() noexcept;
  bool is_subscribed() const noexcept { return subscriber_ != nullptr; }
  const char* other_subscriber() const noexcept { return other_; }
  Result enable_callback(bool on, Domain domain, uint32_t id) noexcept;
  Result register_buffers(RequestBuffer request, CompleteBuffer complete, RequestBuffer2 request2,
                          CompleteBuffer2 complete2) noexcept;
  // With a buffer of V2: where CUPTI put the fields that we asked for. Any thread.
  void learn(const void* complete_info) noexcept;
  // CUPTI did not say where fields lie: subscribe again, and records come whole.
  bool has_unread_fields() const noexcept { return chooses_fields_ && fields_.has_failed(); }
  Result enable(Kind kind) noexcept;
  Result disable(Kind kind) noexcept;
  // Graphs by their nodes, or each as a whole. In V2 it is one for all subscribers, and settled
  // only while none of them has records on.
  Result show_nodes(bool nodes) noexcept;
  // Records of one API call; kUnknown: this version has all of them or none.
  Result enable_api(bool on, Domain domain, uint32_t id) noexcept;
  Result set_attribute(Attribute attribute, size_t bytes, void* value) noexcept;
  // Kernel times by the hardware event system: before a context exists, and for good.
  Result enable_hardware_events() noexcept;
  Result flush(uint32_t flags) noexcept;
  Result next_record(uint8_t* buffer, size_t valid_bytes, Activity** record) noexcept {
    if (api_ != Api::kV2) return next_(buffer, valid_bytes, record);
    Subscriber subscriber = subscriber_;
    if (subscriber == nullptr) return kInvalidOperation;
    return next2_(subscriber, buffer, valid_bytes, record);
  }
  // The record in the form that the decoder knows, in `place` where CUPTI's is another; nullptr:
  // it cannot be read.
  const Activity* whole(const Activity* record, WholeRecord* place) const noexcept {
    if (!chooses_fields_.load(std::memory_order_relaxed)) return record;
    return fields_.unpack(*record, place) ? &place->any : nullptr;
  }
  Result dropped(Context context, uint32_t stream, size_t* count) noexcept;
  Result timestamp(uint64_t* ns) noexcept;
  Result graph_node_id(void* node, uint64_t* id) noexcept;
  // What a context is called in records, and its device.
  Result place_of(Context context, uint32_t* id, uint32_t* device) noexcept;
  Result finalize() noexcept;

 private:
  bool find_loaded() noexcept;
  bool load() noexcept;
  bool try_load(const char* path) noexcept;
  // nullptr, or why it is of no use.
  const char* resolve() noexcept;
  void close() noexcept;

  CuptiPlaces places_;
  bool is_listed_ = false;
  bool is_kept_ = false;
  void* library_ = nullptr;
  char path_[1024] = {};
  uint32_t copies_ = 0;
  Api api_ = Api::kNone;
  Facts facts_;
  Subscriber subscriber_ = nullptr;
  char other_[64] = {};
  RecordFields fields_;
  std::atomic<bool> chooses_fields_{false};  // of records, of this subscriber

  Result (*version_)(uint32_t*) = nullptr;
  Result (*timestamp_)(uint64_t*) = nullptr;
  Result (*timestamp2_)(Subscriber, uint64_t*) = nullptr;
  Result (*subscribe_)(Subscriber*, Callback, void*) = nullptr;
  Result (*subscribe2_)(Subscriber*, Callback, void*, SubscriberParams*) = nullptr;
  Result (*unsubscribe_)(Subscriber) = nullptr;
  Result (*enable_callback_)(uint32_t, Subscriber, uint32_t, uint32_t) = nullptr;
  Result (*register_)(RequestBuffer, CompleteBuffer) = nullptr;
  Result (*register2_)(Subscriber, RequestBuffer2, CompleteBuffer2) = nullptr;
  Result (*enable_)(uint32_t) = nullptr;
  Result (*enable2_)(Subscriber, uint32_t, void*) = nullptr;
  Result (*disable_)(uint32_t) = nullptr;
  Result (*disable2_)(Subscriber, uint32_t, void*) = nullptr;
  Result (*set_attribute_)(uint32_t, size_t*, void*) = nullptr;
  Result (*set_attribute2_)(Subscriber, uint32_t, size_t*, void*) = nullptr;
  Result (*flush_)(uint32_t) = nullptr;
  Result (*next_)(uint8_t*, size_t, Activity**) = nullptr;
  Result (*next2_)(Subscriber, uint8_t*, size_t, Activity**) = nullptr;
  Result (*dropped_)(Context, uint32_t, size_t*) = nullptr;
  Result (*dropped2_)(Subscriber, Context, uint32_t, size_t*) = nullptr;
  Result (*graph_node_id_)(void*, uint64_t*) = nullptr;
  Result (*context_id_)(Context, uint32_t*) = nullptr;
  Result (*device_id_)(Context, uint32_t*) = nullptr;
  Result (*finalize_)() = nullptr;
  Result (*hardware_trace_)(uint8_t) = nullptr;
  Result (*enable_driver_api_)(uint32_t, uint8_t) = nullptr;
  Result (*enable_runtime_api_)(uint32_t, uint8_t) = nullptr;
};

}  // namespace pilotlight::cupti
