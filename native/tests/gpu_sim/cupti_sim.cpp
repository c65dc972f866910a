// native/tests/gpu_sim/cupti_sim.cpp: libcupti, simulated, one library for each version of it.
//
// kVersion is CUPTI_API_VERSION: 18 (11.8), 22 (12.4), 28 (12.9), 130000 (13.0), 130001 (13.0
// update 1), 130100, 130401 (13.4). What the versions export and how long their records are differs
// as in reality.
#include <unistd.h>

#include <algorithm>
#include <mutex>

#include "cupti_client.h"

namespace abi = pilotlight::cupti;
using namespace gpu_sim;

namespace {

std::atomic<bool> is_per_thread{kVersion >= 130000};
constexpr size_t kMaxPending = 4u << 20;

std::atomic<uint32_t> any[4][kMaxId];
std::atomic<uint8_t> api_on[3][kMaxId];  // records of single calls
std::atomic<uint32_t> sub_busy{0};
std::atomic<uint64_t> works{0};
std::atomic<bool> is_muted{false};
std::atomic<bool> is_resting{false};

void do_nothing(void*, uint32_t, uint32_t, const void*) {}

thread_local uint32_t lane_of_thread = ~0u;

uint64_t now() { return gpu_sim_now(); }

std::atomic<uint64_t (*)()> client_clock{nullptr};
struct {
  uint64_t ns, told;
} clock_began = {};

double stretch_ratio() {
  static const double value = number_in("PILOTLIGHT_SIM_STRETCH", 0);
  return value;
}

void spin(double ns) {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  double end = double(t.tv_sec) * 1e9 + double(t.tv_nsec) + ns;
  do {
    clock_gettime(CLOCK_MONOTONIC, &t);
  } while (double(t.tv_sec) * 1e9 + double(t.tv_nsec) < end);
}

uint64_t clock_now() {
  timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return uint64_t(t.tv_sec) * 1000000000 + uint64_t(t.tv_nsec);
}

// What reading the clock itself takes, to be left out of what is measured with it.
uint64_t clock_cost() {
  static const uint64_t cost = [] {
    uint64_t least = ~0ull;
    for (int i = 0; i < 1000; i++) {
      uint64_t before = clock_now();
      uint64_t width = clock_now() - before;
      if (width < least) least = width;
    }
    return least;
  }();
  return cost;
}

// Accounts for the time of a launching thread from here to the end of its scope. The clock of the
// thread's own CPU time is a system call, dearer than what is measured; so what takes longer than
// anything here does, because other programs had the core, counts as the longest.
class Spending {
 public:
  Spending() : before_(clock_now()) {}
  ~Spending() {
    uint64_t spent = std::min(clock_now() - before_, kLongestNs);
    gpu_sim_spent(spent > clock_cost() ? spent - clock_cost() : 0);
  }

 private:
  static constexpr uint64_t kLongestNs = 50000;
  uint64_t before_;
};

void tell_call(const Call& call);

void on_call(Call* call, bool is_exit) {
  if (call->domain > 2 || call->id >= kMaxId) return;
  if (is_exit) tell_call(*call);
  if (any[call->domain][call->id].load(std::memory_order_acquire) == 0) {
    return;
  }
  Spending spending;
  abi::CallbackData data = {};
  data.site = is_exit ? abi::kExit : abi::kEnter;
  data.function = call->function;
  data.symbol = call->symbol;
  data.correlation_data = &call->correlation_data;
  data.correlation = call->correlation;
  data.context = call->context;
  data.result = is_exit ? &call->result : nullptr;
  for (Client& client : clients) {
    if (client.enabled[call->domain][call->id].load(std::memory_order_acquire) == 0) continue;
    Calling calling(kApi);
    abi::Callback callback =
        is_muted.load(std::memory_order_relaxed) ? do_nothing : client.callback;
    callback(client.user, call->domain, call->id, &data);
  }
}

void on_work(const Work* given);

// The record of an API call, where it is asked for; before it the ids of its thread.
void tell_call(const Call& call) {
  uint32_t kind = call.domain == abi::kDriver ? abi::kDriverApi : abi::kRuntimeApi;
  if (kinds_on[kind].load(std::memory_order_relaxed) == 0 &&
      api_on[call.domain][call.id].load(std::memory_order_relaxed) == 0) {
    return;
  }
  Work work = {};
  work.correlation = call.correlation;
  work.start_ns = work.end_ns = now();
  for (const gpu_sim::ExternalId& id : gpu_sim::external_ids()) {
    work.kind = gpu_sim::kExternal;
    work.copy_kind = id.kind;
    work.bytes = id.id;
    on_work(&work);
  }
  work.kind = gpu_sim::kCall;
  work.sync_type = call.domain;
  on_work(&work);
}

void on_work(const Work* given) {
  if (is_resting.load(std::memory_order_relaxed)) return;
  uint32_t kind = kind_of(*given);
  bool is_call = given->kind == gpu_sim::kCall;
  if (!is_call && kinds_on[kind].load(std::memory_order_relaxed) == 0) return;
  if (given->kind == gpu_sim::kGraph && is_shared() && !whole_graphs) return;
  Spending spending;
  if (given->kind == gpu_sim::kKernel && kernel_records_on()) {
    static const double cost_ns = number_in("PILOTLIGHT_SIM_RECORD_NS", 0);
    if (cost_ns > 0) spin(cost_ns);
  }
  for (Client& client : clients) {
    if (!is_call && client.kinds[kind].load(std::memory_order_acquire) == 0) continue;
    if (!client.is_registered()) continue;
    Work work = *given;
    uint64_t number = ++works;
    if (number % 100 == 0 && has_trap("zero_timestamps")) work.start_ns = work.end_ns = 0;
    if (number % 50 == 1 && has_trap("out_of_order")) std::swap(work.start_ns, work.end_ns);
    std::lock_guard<std::recursive_mutex> lock(client.mutex);
    if (number % 1000 == 0 && has_trap("drop")) {
      client.dropped++;
      continue;
    }
    static std::atomic<uint32_t> threads{0};
    if (lane_of_thread == ~0u) lane_of_thread = is_per_thread ? threads++ % kLanes : 0;
    Lane& lane = client.lanes[lane_of_thread];
    if (lane.pending.size() >= kMaxPending / kLanes) {
      client.dropped++;
      continue;
    }
    // The trap of the real one: a buffer is asked for on the application's thread.
    if (lane.buffer.data == nullptr) request_buffer(&client, &lane.buffer);
    lane.pending.push_back(work);
  }
}

void on_device_work(const Work* work) {
  on_work(work);
  if (work->kind == gpu_sim::kKernel) {
    gpu_sim::pc_sampling_sees(*work);
    gpu_sim::pm_sampling_sees(*work);
    gpu_sim::range_profiler_sees(*work);
  }
  static std::atomic<uint64_t> kernels{0};
  if (work->kind != gpu_sim::kKernel || !has_trap("overhead") || ++kernels % 100 != 0) return;
  Work own = *work;
  own.kind = gpu_sim::kOwn;
  // 6: COMMAND_BUFFER_FULL.
  own.copy_kind = uint32_t(gpu_sim::number_in("PILOTLIGHT_SIM_OVERHEAD", 6));
  own.start_ns -= uint64_t(gpu_sim::number_in("PILOTLIGHT_SIM_OVERHEAD_NS", 20000));
  own.end_ns = work->start_ns;
  on_work(&own);
}

void on_graph(const GraphEvent* event) {
  for (Client& client : clients) {
    if (client.enabled[abi::kResource][event->id].load() == 0) continue;
    abi::GraphData graph = {};
    graph.graph = event->graph;
    graph.node = event->node;
    graph.original_node = event->original_node;
    abi::ResourceData data = {nullptr, event->graph, &graph};
    Calling calling(kResource);
    client.callback(client.user, abi::kResource, event->id, &data);
  }
}

void on_resource(uint32_t id, void* context) {
  if (id == 1) has_context = true;
  for (Client& client : clients) {
    if (client.enabled[abi::kResource][id].load() == 0) continue;
    abi::ResourceData data = {context, context, nullptr};
    Calling calling(kResource);
    client.callback(client.user, abi::kResource, id, &data);
  }
  if (id != abi::kContextDestroyStarting) return;
  gpu_sim::pc_sampling_context_ends(context);
  gpu_sim::range_profiler_context_ends(context);
}

bool in_callback() { return inside() != kNowhere; }
double stretch() {
  // With hardware events kernels are not instrumented.
  return kernel_records_on() && !hardware_events && !is_resting ? stretch_ratio() : 0;
}
bool traces_nodes() {
  bool whole = is_shared() ? whole_graphs.load() : kinds_on[abi::kGraphTrace].load() != 0;
  return kernel_records_on() && !whole;
}

uint32_t graph_turn() { return graph_turns; }

const Hooks hooks = {on_call,     on_device_work, on_graph,     on_resource,
                     in_callback, stretch,        traces_nodes, graph_turn};

}  // namespace

namespace gpu_sim {

void attach() { gpu_sim_attach(&hooks); }

// Times of the device are led over to the client's clock along a straight line.
uint64_t told_time(uint64_t ns) {
  uint64_t (*clock)() = client_clock.load();
  if (clock == nullptr || ns == 0) return ns;
  double rate = double(clock() - clock_began.told) / double(now() - clock_began.ns);
  return clock_began.told + uint64_t(int64_t(double(int64_t(ns - clock_began.ns)) * rate));
}

}  // namespace gpu_sim

extern "C" {

abi::Result cuptiGetVersion(uint32_t* version) {
  *version = kVersion;
  return has_trap("no_driver") && kVersion >= 130400 ? abi::kUnknown : abi::kSuccess;
}

abi::Result cuptiGetTimestamp(uint64_t* ns) {
  if (has_trap("no_clock")) return abi::kNotInitialized;
  if (has_trap("late_clock") && !has_context) return abi::kNotInitialized;
  // Whether it follows the clock that a client gave is not written anywhere.
  *ns = has_trap("clock_apart") ? now() : told_time(now());
  return abi::kSuccess;
}

abi::Result cuptiActivityRegisterTimestampCallback(uint64_t (*clock)()) {
  check_process();
  if (clock == nullptr) return abi::kInvalidParameter;
  if (any_kind_on()) illegal("another clock while records are on");
  clock_began = {now(), clock()};
  timespec pause = {0, 1000000};
  nanosleep(&pause, nullptr);
  client_clock = clock;
  return abi::kSuccess;
}

abi::Result cuptiSubscribe(void** subscriber, abi::Callback callback, void* user) {
  return add_client(subscriber, callback, user, false, false);
}

abi::Result cuptiUnsubscribe(void* subscriber) {
  check_process();
  if (inside() == kBufferCallback || inside() == kResource) {
    illegal("cuptiUnsubscribe inside a buffer or resource callback");
  }
  Client* client = client_of(subscriber);
  for (uint32_t domain = 1; domain < 4; domain++) {
    for (uint32_t id = 0; id < kMaxId; id++) {
      if (client->enabled[domain][id].exchange(0) != 0) any[domain][id]--;
    }
  }
  if (client->v2) {
    for (uint32_t kind = 0; kind < kKinds; kind++) set_kind(client, kind, false);
    std::lock_guard<std::recursive_mutex> lock(client->mutex);
    for (Lane& lane : client->lanes) {
      pump(client, &lane, true);
      hand_over(client, &lane.buffer);
    }
    client->request2 = nullptr;
    client->complete2 = nullptr;
    client->chooses_fields = false;
    for (gpu_sim::Layout& layout : client->layouts) layout = {};
  }
  client->subscribed = false;
  return abi::kSuccess;
}

abi::Result cuptiEnableCallback(uint32_t on, void* subscriber, uint32_t domain, uint32_t id) {
  check_process();
  Client* client = client_of(subscriber);
  if (sub_busy.fetch_add(1) != 0) illegal("cuptiEnableCallback by two threads at once");
  bool known = domain >= 1 && domain <= 3 && id < kMaxId;
  if (known) {
    uint8_t want = on != 0 ? 1 : 0;
    uint8_t before = client->enabled[domain][id].exchange(want);
    any[domain][id] += uint32_t(want) - uint32_t(before);
  }
  sub_busy.fetch_sub(1);
  return known ? abi::kSuccess : abi::kInvalidParameter;
}

abi::Result cuptiActivityRegisterCallbacks(abi::RequestBuffer request,
                                           abi::CompleteBuffer complete) {
  check_process();
  if (request == nullptr || complete == nullptr) return abi::kInvalidParameter;
  if (has_trap("no_driver")) return abi::kSuccess;
  v1_client()->request = request;
  v1_client()->complete = complete;
  attach();
  start_pump();
  return abi::kSuccess;
}

abi::Result cuptiActivityEnable(uint32_t kind) { return enable_kind(v1_client(), kind, true); }
abi::Result cuptiActivityDisable(uint32_t kind) { return enable_kind(v1_client(), kind, false); }

abi::Result cuptiActivitySetAttribute(uint32_t attribute, size_t* bytes, void* value) {
  check_process();
  if (bytes == nullptr || value == nullptr) return abi::kInvalidParameter;
  if (attribute == abi::kZeroedOutBuffer) {
    if (*bytes != 1) illegal("the attribute ZEROED_OUT_ACTIVITY_BUFFER has one byte");
    v1_client()->zeroed = *static_cast<uint8_t*>(value) != 0;
  }
  if (attribute == abi::kPerThreadBuffer) {
    if (kVersion < 22) return abi::kInvalidParameter;
    if (*bytes != 1) illegal("the attribute PER_THREAD_ACTIVITY_BUFFER has one byte");
    if (any_kind_on()) illegal("buffers per thread asked for while records are on");
    is_per_thread = *static_cast<uint8_t*>(value) != 0;
  }
  return abi::kSuccess;
}

abi::Result cuptiActivityFlushPeriod(uint32_t) { return abi::kSuccess; }

abi::Result cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, abi::Activity** record) {
  return next_record(*v1_client(), buffer, valid, record);
}

abi::Result cuptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* dropped) {
  *dropped = v1_client()->dropped.exchange(0);
  return abi::kSuccess;
}

abi::Result cuptiGetGraphNodeId(void* node, uint64_t* id) {
  *id = gpu_sim_node_id(node);
  return abi::kSuccess;
}

abi::Result cuptiGetContextId(void* context, uint32_t* id) {
  uint32_t device = 0;
  return gpu_sim_context(context, id, &device) ? abi::kSuccess : abi::kInvalidParameter;
}

abi::Result cuptiFinalize() {
  check_process();
  if (inside() == kBufferCallback || inside() == kResource) {
    illegal("cuptiFinalize inside a buffer or resource callback");
  }
  uint32_t there = 0;
  for (Client& client : clients) there += client.subscribed ? 1 : 0;
  if (there > 0) return abi::kSuccess;  // does nothing while others are there
  for (uint32_t kind = 0; kind < kKinds; kind++) set_kind(v1_client(), kind, false);
  std::lock_guard<std::recursive_mutex> lock(v1_client()->mutex);
  for (Lane& lane : v1_client()->lanes) {
    if (v1_client()->complete != nullptr) hand_over(v1_client(), &lane.buffer);
    lane.pending.clear();
  }
  v1_client()->request = nullptr;
  v1_client()->complete = nullptr;
  gpu_sim_attach(nullptr);
  return abi::kSuccess;
}

// For bench/gpu.py: while it is on, calls go to an empty function instead of the subscriber's.
void gpu_sim_mute(int on) { is_muted = on != 0; }

// For bench/gpu.py: while it is on, work is done as if nobody had asked for records of it.
void gpu_sim_rest(int on) { is_resting = on != 0; }

int gpu_sim_is_per_thread() { return is_per_thread ? 1 : 0; }

// What a version does not have yet, CMakeLists.txt keeps it from exporting.

abi::Result cuptiActivityEnableDriverApi(uint32_t id, uint8_t on) {
  check_process();
  if (id >= kMaxId || on > 1) return abi::kInvalidParameter;
  api_on[abi::kDriver][id] = on;
  return abi::kSuccess;
}

abi::Result cuptiActivityEnableRuntimeApi(uint32_t id, uint8_t on) {
  check_process();
  if (id >= kMaxId || on > 1) return abi::kInvalidParameter;
  api_on[abi::kRuntime][id] = on;
  return abi::kSuccess;
}

abi::Result cuptiActivityEnableHWTrace(uint8_t enable) {
  check_process();
  if (enable != 1) illegal("hardware events cannot be disabled");
  return enable_hardware_events();
}

}  // extern "C"
