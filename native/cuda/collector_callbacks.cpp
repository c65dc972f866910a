// native/cuda/collector_callbacks.cpp: the collector as CUPTI calls it: at launches, when contexts,
// modules and graphs come and go, and for buffers. Mostly on the application's threads.
#include "cuda/collector.h"
#include "cuda/waiting.h"

namespace pilotlight::cupti {

// Records of waits say their context only.
void Collector::context_begins(Context context) noexcept {
  uint32_t number = 0, device = 0;
  if (library_.place_of(context, &number, &device) == kSuccess) decoder_.note(number, device);
}

void Collector::context_ends(Context context) noexcept {
  DeviceSampler* sampler = notes_contexts_.load(std::memory_order_acquire);
  if (sampler == nullptr) return;
  // On the application's thread, inside CUPTI: if ours is inside it too, the context goes as it is.
  if (!lock_within(&lock_, kYieldWaitNs)) return sampler->abandon(context);
  if (method_ != nullptr) method_->sampler->forget(context);
  pthread_mutex_unlock(&lock_);
}

void Collector::resource(uint32_t id, const ResourceData& data) noexcept {
  if (id == kContextCreated) return context_begins(data.context);
  if (id == kContextDestroyStarting) return context_ends(data.context);
  if (id == kModuleLoaded || id == kModuleUnloadStarting) return names_.new_epoch();
  if (data.descriptor == nullptr) return;
  const auto& graph = *static_cast<const GraphData*>(data.descriptor);
  saw_graph_.store(true, std::memory_order_relaxed);
  uint64_t node = 0;
  if (library_.graph_node_id(graph.node, &node) != kSuccess) return;
  if (id != kGraphNodeCloned) {
    Launches::note_captured();
    return nodes_.create(node, {api_->stack(), api_->range()});
  }
  uint64_t original = 0;
  if (library_.graph_node_id(graph.original_node, &original) == kSuccess) {
    nodes_.clone(node, original);
  }
}

// Each launch comes to the driver, also that of the runtime.
void Collector::tell(DeviceSampler* sampler, uint32_t domain, uint32_t id,
                     const CallbackData& call) noexcept {
  sampler->note(call.context);
  auto kind = static_cast<ActivityKind>(launches_.kind_of(domain, id));
  bool is_graph = kind == ActivityKind::kGraph;
  if (domain != kDriver || (kind != ActivityKind::kKernel && !is_graph)) return;
  if (call.site != kEnter) return sampler->launched();
  const char* name = call.symbol != nullptr ? call.symbol : "";
  if (sampler->launches(call.context, is_graph ? nullptr : name)) sem_post(&wake_);
}

// Once each time: what is on costs the job meanwhile.
void Collector::notice_pause() noexcept {
  if (!noticed_pause_.exchange(true, std::memory_order_relaxed)) sem_post(&wake_);
}

void Collector::callback(void* user, uint32_t domain, uint32_t id, const void* data) noexcept {
  auto* self = static_cast<Collector*>(user);
  if (self->forked_.load(std::memory_order_relaxed) || data == nullptr) return;
  if (domain == cupti::kResource)
    return self->resource(id, *static_cast<const ResourceData*>(data));
  const auto& call = *static_cast<const CallbackData*>(data);
  self->launches_.callback(domain, id, call);
  bool is_collecting = self->api_->collecting->load(std::memory_order_relaxed);
  if (__builtin_expect(!is_collecting, 0)) self->notice_pause();
  DeviceSampler* sampler = self->notes_contexts_.load(std::memory_order_relaxed);
  if (__builtin_expect(sampler != nullptr, 0)) self->tell(sampler, domain, id, call);
  if (__builtin_expect(!self->finalize_.load(std::memory_order_relaxed), 1)) return;
  // Not while our threads are inside CUPTI, nor while its records are read: then the next call does
  // it.
  if (call.site != kExit || self->pool_.has_come_back()) return;
  if (pthread_mutex_trylock(&self->lock_) != 0) return;
  if (self->finalize_.exchange(false) && self->holds_.exchange(false)) {
    bool whole = !self->library_.facts().breaks_graphs || !self->saw_graph_.load();
    self->library_.unsubscribe();
    if (whole) self->library_.finalize();
    self->launches_on_ = false;
    self->api_->mark("gpu/torn_down", 13, whole ? 1 : 0);
  }
  pthread_mutex_unlock(&self->lock_);
}

void Collector::request(uint8_t** buffer, size_t* bytes, size_t* most) noexcept {
  Collector& self = get();
  *most = 0;
  self.pool_.request(self.library_.facts().takes_no_null, buffer, bytes);
}

void Collector::complete(Context context, uint32_t stream, uint8_t* buffer, size_t,
                         size_t valid_bytes) noexcept {
  Collector& self = get();
  if (buffer == nullptr) return;
  FullBuffer away = {};
  if (self.pool_.complete(context, stream, buffer, valid_bytes, &away)) {
    self.decoder_.turn_away(away);
    self.pool_.give_back(away);
  }
  sem_post(&self.decode_);
  if (self.pool_.is_low()) sem_post(&self.wake_);
}

void Collector::request2(uint8_t** buffer, size_t* bytes, size_t* most, void*) noexcept {
  request(buffer, bytes, most);
}

void Collector::complete2(uint8_t* buffer, size_t bytes, size_t valid_bytes, void* info) noexcept {
  Collector& self = get();
  if (buffer != nullptr && valid_bytes != 0) self.library_.learn(info);
  if (self.library_.has_unread_fields()) sem_post(&self.wake_);
  complete(nullptr, 0, buffer, bytes, valid_bytes);
}

}  // namespace pilotlight::cupti
