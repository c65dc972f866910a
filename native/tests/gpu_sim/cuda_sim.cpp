// native/tests/gpu_sim/cuda_sim.cpp: libcuda.so.1, simulated: devices, contexts, modules, streams.
// What is submitted to them is in work_sim.cpp, graphs are in graphs_sim.cpp.
#include "cuda_sim.h"

#include <dlfcn.h>

#include <set>

namespace gpu_sim {

std::atomic<const Hooks*> hooks{nullptr};
std::atomic<uint32_t> correlations{0};
std::atomic<uint64_t> launches{0}, kernel_ns{0}, calls{0};
std::atomic<bool> initialized{false};
thread_local Context* current = nullptr;
thread_local uint32_t outer_correlation = 0;
thread_local int outcome = kSuccess;

void sleep_until(uint64_t ns) {
  uint64_t now = gpu_sim_now();
  if (ns <= now) return;
  timespec pause = {time_t((ns - now) / 1000000000), long((ns - now) % 1000000000)};
  while (nanosleep(&pause, &pause) != 0) {
  }
}

Stream* stream_of(void* handle) {
  if (handle != nullptr) return static_cast<Stream*>(handle);
  return current != nullptr ? &current->device->base : nullptr;
}

}  // namespace gpu_sim

using namespace gpu_sim;

namespace {

std::mutex setup;
std::atomic<uint32_t> contexts{0};
std::atomic<uint64_t> profiler_ns{0};
// Never destroyed: programs launch work while they end.
auto& devices = *new std::vector<Device*>;
auto& live_contexts = *new std::set<void*>;

// Tells of it after it began to live, and before it ends.
void context_begins(Context* context) {
  {
    std::lock_guard<std::mutex> lock(setup);
    live_contexts.insert(context);
  }
  const Hooks* h = hooks.load(std::memory_order_acquire);
  if (h != nullptr) h->resource(1, context);
}

void context_ends(Context* context) {
  const Hooks* h = hooks.load(std::memory_order_acquire);
  if (h != nullptr) h->resource(2, context);
  std::lock_guard<std::mutex> lock(setup);
  live_contexts.erase(context);
  context->alive = false;
}

void synchronize(Stream* stream, uint64_t ready_ns, uint32_t type, uint32_t correlation) {
  Work work = {};
  work.kind = kSync;
  work.sync_type = type;
  work.device = stream->context->device->index;
  work.context = stream->context->uid;
  work.stream = type == 4 ? 0xffffffff : stream->id;
  work.correlation = correlation;
  work.start_ns = gpu_sim_now();
  sleep_until(ready_ns);
  work.end_ns = gpu_sim_now();
  tell_work(work);
}

void inject() {
  const char* path = getenv("CUDA_INJECTION64_PATH");
  if (path == nullptr || path[0] == 0) return;
  void* library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  auto entry = reinterpret_cast<int (*)()>(dlsym(library, "InitializeInjection"));
  if (entry != nullptr) entry();
}

}  // namespace

extern "C" {

void gpu_sim_attach(const Hooks* h) { hooks.store(h, std::memory_order_release); }

uint64_t gpu_sim_now() {
  timespec t;
  clock_gettime(CLOCK_REALTIME, &t);
  uint64_t now = uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec);
  static const uint64_t begin = now;
  static const double jump_s = number_in("PILOTLIGHT_SIM_CLOCK_JUMP_AFTER", 0);
  // Somebody sets the clock: a minute forward.
  if (jump_s > 0 && double(now - begin) > jump_s * 1e9) now += 60000000000ull;
  return now;
}

void gpu_sim_stats(Stats* stats) {
  *stats = {launches.load(), kernel_ns.load(), calls.load(), profiler_ns.load()};
}

void gpu_sim_spent(uint64_t ns) { profiler_ns.fetch_add(ns, std::memory_order_relaxed); }

bool gpu_sim_context(void* context, uint32_t* uid, uint32_t* device) {
  std::lock_guard<std::mutex> lock(setup);
  if (live_contexts.count(context) == 0) return false;
  *uid = static_cast<Context*>(context)->uid;
  *device = static_cast<Context*>(context)->device->index;
  return true;
}

int cuInit(unsigned) {
  {
    std::lock_guard<std::mutex> lock(setup);
    if (initialized) return kSuccess;
    if (has_trap("no_device")) return kNoDevice;
    auto count = static_cast<uint32_t>(number_in("PILOTLIGHT_SIM_DEVICES", 1));
    for (uint32_t i = 0; i < count; i++) {
      auto* device = new Device();
      device->index = i;
      device->primary = {++contexts, device, true};
      device->streams = 7;
      device->base = {7, &device->primary, 0, nullptr, true};
      devices.push_back(device);
    }
    initialized = true;
  }
  inject();
  const Hooks* h = hooks.load(std::memory_order_acquire);
  if (h != nullptr) h->resource(5, nullptr);
  return kSuccess;
}

int cuDriverGetVersion(int* version) {
  *version = static_cast<int>(number_in("PILOTLIGHT_SIM_DRIVER", 13040));
  return kSuccess;
}

int cuDeviceGetCount(int* count) {
  *count = static_cast<int>(devices.size());
  return initialized ? kSuccess : kNotInitialized;
}

int cuDeviceGet(int* device, int index) {
  *device = index;
  return index >= 0 && size_t(index) < devices.size() ? kSuccess : kInvalidValue;
}

int cuDeviceGetName(char* name, int size, int) {
  snprintf(name, size_t(size), "Simulated GPU");
  return kSuccess;
}

int cuDevicePrimaryCtxRetain(void** context, int device) {
  if (!initialized) return kNotInitialized;
  if (device < 0 || size_t(device) >= devices.size()) return kInvalidValue;
  devices[size_t(device)]->primary.alive = true;
  *context = &devices[size_t(device)]->primary;
  context_begins(&devices[size_t(device)]->primary);
  return kSuccess;
}

int cuDevicePrimaryCtxReset_v2(int device) {
  context_ends(&devices[size_t(device)]->primary);
  devices[size_t(device)]->primary.uid = ++contexts;
  return kSuccess;
}

int cuCtxCreate_v2(void** context, unsigned, int device) {
  if (!initialized) return kNotInitialized;
  current = new Context{++contexts, devices[size_t(device)], true};
  *context = current;
  context_begins(current);
  return kSuccess;
}

int cuCtxDestroy_v2(void* context) {
  context_ends(static_cast<Context*>(context));
  if (current == context) current = nullptr;
  return kSuccess;
}

int cuCtxSetCurrent(void* context) {
  const Hooks* h = hooks.load(std::memory_order_acquire);
  if (h != nullptr && h->in_callback()) illegal("a CUDA call inside a CUPTI callback");
  current = static_cast<Context*>(context);
  return kSuccess;
}

int cuCtxGetCurrent(void** context) {
  *context = current;
  return kSuccess;
}

int cuCtxSynchronize() {
  Api api(17, "cuCtxSynchronize", nullptr);
  Stream* base = stream_of(nullptr);
  if (base == nullptr) return kInvalidContext;
  uint64_t ready = base->ready_ns;
  synchronize(base, ready, 4, api.correlation());
  return kSuccess;
}

int cuModuleLoadData(void** module, const void*) {
  *module = new Module{{}, true};
  const Hooks* h = hooks.load(std::memory_order_acquire);
  if (h != nullptr) h->resource(6, current);
  return kSuccess;
}

int cuModuleUnload(void* module) {
  const Hooks* h = hooks.load(std::memory_order_acquire);
  if (h != nullptr) h->resource(7, current);
  static_cast<Module*>(module)->alive = false;
  return kSuccess;
}

int cuModuleGetFunction(void** function, void* module, const char* name) {
  auto* m = static_cast<Module*>(module);
  m->names.emplace_back(name);
  *function = new Function{m, m->names.back().c_str()};
  return kSuccess;
}

int cuStreamCreate(void** stream, unsigned) {
  if (current == nullptr) return kInvalidContext;
  Device* device = current->device;
  std::lock_guard<std::mutex> lock(device->mutex);
  device->streams += 6;
  *stream = new Stream{device->streams, current, 0, nullptr, true};
  return kSuccess;
}

int cuStreamDestroy_v2(void* stream) {
  static_cast<Stream*>(stream)->alive = false;
  return kSuccess;
}

int cuStreamSynchronize(void* handle) {
  Api api(126, "cuStreamSynchronize", nullptr);
  Stream* stream = stream_of(handle);
  int error = check(stream);
  if (error != kSuccess) return error;
  synchronize(stream, stream->ready_ns, 3, api.correlation());
  return kSuccess;
}

}  // extern "C"
