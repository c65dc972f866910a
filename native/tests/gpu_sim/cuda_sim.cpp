// native/tests/gpu_sim/cuda_sim.cpp: libcuda.so.1, simulated.
//
// The timing model: a kernel takes grid x block nanoseconds; a stream does one thing after the
// other; kernels of different streams overlap; each device has a copy engine a direction, 25 GB/s.
// Everything is computed at submission, so that a wait is a sleep and nothing else runs.
#include <dlfcn.h>
#include <pthread.h>

#include <atomic>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "sim.h"

using namespace gpu_sim;

namespace {

enum : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kLaunchFailed = 719,
};

constexpr uint64_t kLatencyNs = 3000;
constexpr uint64_t kDeepestQueueNs = 200000000;
constexpr double kCopyBytesPerNs = 25;

struct Device;
struct Graph;

struct Context {
  uint32_t uid;
  Device* device;
  bool alive;
};

struct Stream {
  uint32_t id;
  Context* context;
  uint64_t ready_ns;
  Graph* capturing;
  bool alive;
};

struct Module {
  std::deque<std::string> names;
  bool alive;
};

struct Function {
  Module* module;
  const char* name;
};

struct Node {
  uint64_t id;
  WorkKind kind;
  const char* name;
  uint64_t length_ns;
  uint64_t bytes;
  uint32_t copy_kind;
};

struct Graph {
  uint32_t id;
  std::vector<Node*> nodes;
};

struct Device {
  uint32_t index;
  uint64_t copy_ready_ns[2];
  Context primary;
  uint32_t streams;
  Stream base;
  std::mutex mutex;
};

std::atomic<const Hooks*> hooks{nullptr};
std::atomic<uint32_t> correlations{0};
std::atomic<uint32_t> contexts{0};
std::atomic<uint32_t> graphs{0};
std::atomic<uint64_t> nodes{0};
std::atomic<uint64_t> launches{0}, kernel_ns{0}, calls{0}, profiler_ns{0};
std::atomic<bool> initialized{false};
std::mutex setup;
std::vector<Device*> devices;
std::set<void*> live_contexts;
thread_local Context* current = nullptr;
thread_local uint32_t outer_correlation = 0;

double speed() {
  static const double value = number_in("PILOTLIGHT_SIM_SPEED", 1);
  return value;
}

uint64_t lost_after() {
  static const auto value = static_cast<uint64_t>(number_in("PILOTLIGHT_SIM_LOST_AFTER", 0));
  return value;
}

void sleep_until(uint64_t ns) {
  uint64_t now = gpu_sim_now();
  if (ns <= now) return;
  timespec pause = {time_t((ns - now) / 1000000000), long((ns - now) % 1000000000)};
  while (nanosleep(&pause, &pause) != 0) {
  }
}

// An API call from its beginning to its end, with what a profiler hears of it.
class Api {
 public:
  Api(uint32_t id, const char* function, const char* symbol, uint32_t domain = 1) {
    const Hooks* h = hooks.load(std::memory_order_acquire);
    calls.fetch_add(1, std::memory_order_relaxed);
    if (h != nullptr && h->in_callback()) illegal("a CUDA call inside a CUPTI callback");
    // A driver call inside a runtime call has the same number.
    call_ = {domain, id, function, symbol, outer_correlation, 0, current};
    is_outer_ = outer_correlation == 0;
    if (is_outer_) outer_correlation = call_.correlation = ++correlations;
    tell(h, false);
  }
  ~Api() {
    tell(hooks.load(std::memory_order_acquire), true);
    if (is_outer_) outer_correlation = 0;
  }
  uint32_t correlation() const { return call_.correlation; }

 private:
  void tell(const Hooks* h, bool is_exit) {
    if (h != nullptr) h->call(&call_, is_exit);
  }
  Call call_;
  bool is_outer_;
};

void tell_work(const Work& work) {
  const Hooks* h = hooks.load(std::memory_order_acquire);
  if (h != nullptr) h->work(&work);
}

double stretch() {
  const Hooks* h = hooks.load(std::memory_order_acquire);
  return h != nullptr ? 1 + h->stretch() : 1;
}

Stream* stream_of(void* handle) {
  if (handle != nullptr) return static_cast<Stream*>(handle);
  return current != nullptr ? &current->device->base : nullptr;
}

// Puts work behind what its stream has to do; the caller holds the device.
void place(Stream* stream, uint64_t length_ns, uint64_t* engine, Work* work) {
  uint64_t start = gpu_sim_now() + static_cast<uint64_t>(double(kLatencyNs) / speed());
  if (stream->ready_ns > start) start = stream->ready_ns;
  if (engine != nullptr && *engine > start) start = *engine;
  uint64_t end = start + length_ns;
  stream->ready_ns = end;
  if (engine != nullptr) *engine = end;
  work->device = stream->context->device->index;
  work->context = stream->context->uid;
  work->stream = stream->id;
  work->start_ns = start;
  work->end_ns = end;
}

uint64_t scaled(double ns) {
  auto length = static_cast<uint64_t>(ns / speed());
  return length == 0 ? 1 : length;
}

Node* add_node(Graph* graph, const Node& node) {
  Node* added = new Node(node);
  added->id = ++nodes;
  graph->nodes.push_back(added);
  const Hooks* h = hooks.load(std::memory_order_acquire);
  GraphEvent event = {13, graph, added, nullptr};
  if (h != nullptr) h->graph(&event);
  return added;
}

int check(Stream* stream) {
  if (!initialized) return kNotInitialized;
  if (stream == nullptr || !stream->context->alive) return kInvalidContext;
  if (!stream->alive) return kInvalidHandle;
  if (lost_after() != 0 && launches.load() >= lost_after()) return kLaunchFailed;
  return kSuccess;
}

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

void wait_for_room(Stream* stream) {
  uint64_t now = gpu_sim_now();
  if (stream->ready_ns > now + kDeepestQueueNs) sleep_until(stream->ready_ns - kDeepestQueueNs);
}

int launch(Function* function, uint64_t length_ns, Stream* stream, uint32_t correlation) {
  int error = check(stream);
  if (error != kSuccess) return error;
  if (!function->module->alive) return kInvalidHandle;
  if (stream->capturing != nullptr) {
    add_node(stream->capturing, {0, kKernel, function->name, length_ns, 0, 0});
    return kSuccess;
  }
  Work work = {};
  work.kind = kKernel;
  work.name = function->name;
  work.correlation = correlation;
  {
    std::lock_guard<std::mutex> lock(stream->context->device->mutex);
    place(stream, scaled(double(length_ns) * stretch()), nullptr, &work);
  }
  launches.fetch_add(1, std::memory_order_relaxed);
  kernel_ns.fetch_add(work.end_ns - work.start_ns, std::memory_order_relaxed);
  tell_work(work);
  wait_for_room(stream);
  return kSuccess;
}

int copy(WorkKind kind, uint32_t copy_kind, size_t bytes, void* handle, uint32_t correlation) {
  Stream* stream = stream_of(handle);
  int error = check(stream);
  if (error != kSuccess) return error;
  double length = double(bytes) / kCopyBytesPerNs + 1000;
  if (stream->capturing != nullptr) {
    add_node(stream->capturing, {0, kind, nullptr, uint64_t(length), bytes, copy_kind});
    return kSuccess;
  }
  Work work = {};
  work.kind = kind;
  work.bytes = bytes;
  work.copy_kind = copy_kind;
  work.correlation = correlation;
  Device* device = stream->context->device;
  {
    std::lock_guard<std::mutex> lock(device->mutex);
    uint64_t* engine = kind == kSet ? nullptr : &device->copy_ready_ns[copy_kind == 2 ? 1 : 0];
    place(stream, scaled(length), engine, &work);
  }
  tell_work(work);
  return kSuccess;
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

uint64_t gpu_sim_node_id(void* node) { return static_cast<Node*>(node)->id; }

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

int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned, void* stream,
                   void**, void**) {
  if (function == nullptr) return kInvalidValue;
  auto* f = static_cast<Function*>(function);
  Api api(307, "cuLaunchKernel", f->name);
  uint64_t length = uint64_t{grid_x} * grid_y * grid_z * block_x * block_y * block_z;
  return launch(f, length, stream_of(stream), api.correlation());
}

// As the runtime library would: a call of its own around the driver's.
int gpu_sim_runtime_launch(void* function, unsigned grid, unsigned block, void* stream) {
  if (function == nullptr) return kInvalidValue;
  Api api(211, "cudaLaunchKernel", static_cast<Function*>(function)->name, 2);
  return cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream, nullptr, nullptr);
}

// Many launches by one call, so that what Python costs does not hide what a launch costs.
int gpu_sim_launch_many(void* function, unsigned count, unsigned ns, void* stream) {
  int error = kSuccess;
  for (unsigned i = 0; i < count && error == kSuccess; i++) {
    error = cuLaunchKernel(function, ns, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  }
  return error;
}

// A launch each of kernels with names of their own.
int gpu_sim_launch_names(void* module, unsigned count) {
  int error = kSuccess;
  for (unsigned i = 0; i < count && error == kSuccess; i++) {
    void* function = nullptr;
    char name[32];
    snprintf(name, sizeof(name), "made_up_%u", i);
    error = cuModuleGetFunction(&function, module, name);
    if (error == kSuccess) {
      error = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
    }
  }
  return error;
}

int cuMemcpyHtoDAsync_v2(uint64_t, const void*, size_t bytes, void* stream) {
  Api api(277, "cuMemcpyHtoDAsync_v2", nullptr);
  return copy(kCopy, 1, bytes, stream, api.correlation());
}

int cuMemcpyDtoHAsync_v2(void*, uint64_t, size_t bytes, void* stream) {
  Api api(279, "cuMemcpyDtoHAsync_v2", nullptr);
  return copy(kCopy, 2, bytes, stream, api.correlation());
}

int cuMemcpyDtoDAsync_v2(uint64_t, uint64_t, size_t bytes, void* stream) {
  Api api(281, "cuMemcpyDtoDAsync_v2", nullptr);
  return copy(kCopy, 8, bytes, stream, api.correlation());
}

int cuMemcpyPeerAsync(uint64_t, void*, uint64_t, void*, size_t bytes, void* stream) {
  Api api(306, "cuMemcpyPeerAsync", nullptr);
  return copy(kPeerCopy, 10, bytes, stream, api.correlation());
}

int cuMemsetD8Async(uint64_t, unsigned char, size_t bytes, void* stream) {
  Api api(216, "cuMemsetD8Async", nullptr);
  return copy(kSet, 0, bytes, stream, api.correlation());
}

static int memory(WorkKind kind, uint64_t address, size_t bytes) {
  if (current == nullptr) return kInvalidContext;
  Work work = {};
  work.kind = kind;
  work.device = current->device->index;
  work.context = current->uid;
  work.bytes = bytes;
  work.address = address;
  work.start_ns = work.end_ns = gpu_sim_now();
  tell_work(work);
  return kSuccess;
}

int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  static std::atomic<uint64_t> next{0x7f0000000000};
  *address = next.fetch_add((bytes + 511) / 512 * 512);
  return memory(kAllocate, *address, bytes);
}

int cuMemFree_v2(uint64_t address) { return memory(kFree, address, 0); }

int cuStreamBeginCapture_v2(void* stream, int) {
  auto* s = static_cast<Stream*>(stream);
  if (s == nullptr || s->capturing != nullptr) return kInvalidValue;
  s->capturing = new Graph{++graphs, {}};
  return kSuccess;
}

int cuStreamEndCapture(void* stream, void** graph) {
  auto* s = static_cast<Stream*>(stream);
  *graph = s->capturing;
  s->capturing = nullptr;
  return *graph != nullptr ? kSuccess : kInvalidValue;
}

int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  auto* from = static_cast<Graph*>(graph);
  auto* to = new Graph{++graphs, {}};
  const Hooks* h = hooks.load(std::memory_order_acquire);
  for (Node* node : from->nodes) {
    auto* clone = new Node(*node);
    clone->id = ++nodes;
    to->nodes.push_back(clone);
    GraphEvent event = {20, to, clone, node};
    if (h != nullptr) h->graph(&event);
  }
  *exec = to;
  return kSuccess;
}

int cuGraphLaunch(void* exec, void* handle) {
  Api api(514, "cuGraphLaunch", nullptr);
  Stream* stream = stream_of(handle);
  int error = check(stream);
  if (error != kSuccess) return error;
  auto* graph = static_cast<Graph*>(exec);
  const Hooks* h = hooks.load(std::memory_order_acquire);
  bool one_by_one = h != nullptr && h->traces_nodes();
  Work whole = {};
  whole.kind = kGraph;
  whole.correlation = api.correlation();
  whole.graph = graph->id;
  std::vector<Work> works;
  {
    std::lock_guard<std::mutex> lock(stream->context->device->mutex);
    for (Node* node : graph->nodes) {
      Work work = {};
      work.kind = node->kind;
      work.name = node->name;
      work.bytes = node->bytes;
      work.copy_kind = node->copy_kind;
      work.correlation = api.correlation();
      work.graph = graph->id;
      work.graph_node = node->id;
      double more = node->kind == kKernel ? stretch() : 1;
      place(stream, scaled(double(node->length_ns) * more), nullptr, &work);
      if (whole.start_ns == 0)
        whole = {kGraph,
                 work.device,
                 work.context,
                 work.stream,
                 work.start_ns,
                 0,
                 whole.correlation,
                 nullptr,
                 0,
                 0,
                 0,
                 0,
                 graph->id,
                 0};
      whole.end_ns = work.end_ns;
      if (node->kind == kKernel) {
        launches.fetch_add(1, std::memory_order_relaxed);
        kernel_ns.fetch_add(work.end_ns - work.start_ns, std::memory_order_relaxed);
      }
      if (one_by_one) works.push_back(work);
    }
  }
  for (const Work& work : works) tell_work(work);
  if (!one_by_one) tell_work(whole);
  wait_for_room(stream);
  return kSuccess;
}

}  // extern "C"
