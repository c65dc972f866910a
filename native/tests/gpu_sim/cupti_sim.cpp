// native/tests/gpu_sim/cupti_sim.cpp: libcupti, simulated, one library for each version of it.
//
// kVersion is CUPTI_API_VERSION: 18 (11.8), 22 (12.4), 28 (12.9), 130000 (13.0), 130001 (13.0
// update 1), 130100, 130401 (13.4). What the versions export and how long their records are differs
// as in reality.
#include "cupti_sim.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <mutex>
#include <set>

#include "cuda/cupti_abi.h"

namespace abi = pilotlight::cupti;
using gpu_sim::Call;
using gpu_sim::GraphEvent;
using gpu_sim::has_trap;
using gpu_sim::Hooks;
using gpu_sim::illegal;
using gpu_sim::kind_of;
using gpu_sim::kVersion;
using gpu_sim::number_in;
using gpu_sim::size_of;
using gpu_sim::Work;
using gpu_sim::write_record;

namespace {

const bool kHasV2 = kVersion >= 130300;
const bool kPerThread = kVersion >= 130000;
const bool kCrashesWithoutBuffer = kVersion < 28;
constexpr uint32_t kClients = 4;
constexpr uint32_t kMaxId = 1024;
constexpr uint32_t kKinds = 64;
constexpr uint32_t kLanes = 16;
constexpr size_t kMaxPending = 4u << 20;

struct Buffer {
  uint8_t* data = nullptr;
  size_t bytes = 0, used = 0;
};

struct Lane {
  std::deque<Work> pending;
  Buffer buffer;
};

struct Client {
  bool subscribed = false;
  bool v2 = false;
  abi::Callback callback = nullptr;
  void* user = nullptr;
  std::atomic<uint8_t> enabled[4][kMaxId] = {};
  std::atomic<uint8_t> kinds[kKinds] = {};
  abi::RequestBuffer request = nullptr;
  abi::CompleteBuffer complete = nullptr;
  abi::RequestBuffer2 request2 = nullptr;
  abi::CompleteBuffer2 complete2 = nullptr;
  bool zeroed = false;
  std::atomic<uint64_t> dropped{0};
  std::recursive_mutex mutex;
  Lane lanes[kLanes];
};

Client clients[kClients];
std::atomic<uint32_t> any[4][kMaxId];
std::atomic<int> kinds_on[kKinds];
std::atomic<uint8_t> api_on[3][kMaxId];  // records of single calls
std::atomic<int> kernels_on{0};
std::atomic<int> graphs_on{0};
std::atomic<uint32_t> sub_busy{0};
std::atomic<bool> hardware_events{false};
std::atomic<bool> has_context{false};
std::mutex out_mutex;
std::set<uint8_t*> out;     // buffers with us
std::set<uint8_t*> handed;  // back with the client, to be read
std::atomic<uint64_t> works{0};
std::atomic<bool> pumping{false};
pid_t owner = 0;

enum Inside { kNowhere, kApi, kResource, kBufferCallback };
thread_local Inside inside = kNowhere;
thread_local uint32_t lane_of_thread = ~0u;

void check_process() {
  if (owner == 0) owner = getpid();
  if (owner != getpid()) illegal("a CUPTI call in a forked child");
}

uint64_t now() { return gpu_sim_now(); }

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

// Calls of the client's own code, with the mark of where we are.
class Calling {
 public:
  explicit Calling(Inside where) : before_(inside) { inside = where; }
  ~Calling() { inside = before_; }

 private:
  Inside before_;
};

bool request_buffer(Client* client, Buffer* buffer) {
  uint8_t* data = nullptr;
  size_t bytes = 0, most = 0;
  {
    Calling calling(kBufferCallback);
    if (client->v2) {
      size_t info = sizeof(size_t);
      client->request2(&data, &bytes, &most, &info);
    } else {
      client->request(&data, &bytes, &most);
    }
  }
  if (data == nullptr || bytes == 0) {
    if (kCrashesWithoutBuffer) illegal("no buffer given: CUPTI before 12.9 crashes");
    return false;
  }
  if (reinterpret_cast<uintptr_t>(data) % 8 != 0) illegal("a buffer that is not aligned to 8");
  if (bytes < 1024) illegal("a buffer of less than 1 KiB");
  std::lock_guard<std::mutex> lock(out_mutex);
  if (!out.insert(data).second) illegal("a buffer given twice");
  handed.erase(data);
  if (client->zeroed) {
    // At other places each time: all of them would cost the launching thread more than CUPTI does.
    static std::atomic<size_t> turn{0};
    for (size_t i = turn++ * 64 % 4096; i < bytes; i += 4096 * 8) {
      if (data[i] != 0) illegal("a buffer promised to be zeroed is not");
    }
  }
  *buffer = {data, bytes, 0};
  return true;
}

void hand_over(Client* client, Buffer* buffer) {
  if (buffer->data == nullptr) return;
  {
    std::lock_guard<std::mutex> lock(out_mutex);
    if (out.erase(buffer->data) != 1) illegal("a buffer handed over that we do not have");
    handed.insert(buffer->data);
  }
  Buffer full = *buffer;
  *buffer = {};
  Calling calling(kBufferCallback);
  if (client->v2) {
    size_t info[4] = {sizeof(info)};
    client->complete2(full.data, full.bytes, full.used, info);
  } else {
    client->complete(nullptr, 0, full.data, full.bytes, full.used);
  }
}

// Moves what has ended into buffers; the caller holds the client.
void pump(Client* client, Lane* lane, bool everything, uint32_t most = ~0u) {
  uint64_t time = now();
  for (uint32_t i = 0; i < most && !lane->pending.empty(); i++) {
    Work work = lane->pending.front();
    if (!everything && work.end_ns > time) return;
    uint32_t kind = kind_of(work);
    size_t size = size_of(kind);
    if (lane->buffer.data != nullptr && lane->buffer.used + size > lane->buffer.bytes) {
      hand_over(client, &lane->buffer);
    }
    if (lane->buffer.data == nullptr && !request_buffer(client, &lane->buffer)) {
      client->dropped++;
      lane->pending.pop_front();
      continue;
    }
    write_record(lane->buffer.data + lane->buffer.used, kind, work);
    lane->buffer.used += size;
    lane->pending.pop_front();
  }
}

void* pump_all(void*) {
  pthread_setname_np(pthread_self(), "cupti-sim");
  while (true) {
    timespec pause = {0, 2000000};
    nanosleep(&pause, nullptr);
    for (Client& client : clients) {
      for (Lane& lane : client.lanes) {
        // In small bites: a launching thread must not wait for all of them.
        for (int bite = 0; bite < 1000; bite++) {
          std::lock_guard<std::recursive_mutex> lock(client.mutex);
          if (client.request == nullptr && client.request2 == nullptr) break;
          size_t before = lane.pending.size();
          pump(&client, &lane, false, 64);
          if (before - lane.pending.size() < 64) break;
        }
      }
    }
  }
}

void start_pump() {
  if (pumping.exchange(true)) return;
  pthread_t thread;
  pthread_create(&thread, nullptr, pump_all, nullptr);
  pthread_detach(thread);
}

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
  for (Client& client : clients) {
    if (client.enabled[call->domain][call->id].load(std::memory_order_acquire) == 0) continue;
    Calling calling(kApi);
    client.callback(client.user, call->domain, call->id, &data);
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
  uint32_t kind = kind_of(*given);
  bool is_call = given->kind == gpu_sim::kCall;
  if (!is_call && kinds_on[kind].load(std::memory_order_relaxed) == 0) return;
  Spending spending;
  if (given->kind == gpu_sim::kKernel && kernels_on.load() > 0) {
    static const double cost_ns = number_in("PILOTLIGHT_SIM_RECORD_NS", 0);
    if (cost_ns > 0) spin(cost_ns);
  }
  for (Client& client : clients) {
    if (!is_call && client.kinds[kind].load(std::memory_order_acquire) == 0) continue;
    if (client.request == nullptr && client.request2 == nullptr) continue;
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
    if (lane_of_thread == ~0u) lane_of_thread = kPerThread ? threads++ % kLanes : 0;
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
  own.end_ns = own.start_ns + 20000;
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

bool in_callback() { return inside != kNowhere; }
double stretch() {
  // With hardware events kernels are not instrumented.
  return kernels_on.load() > 0 && !hardware_events ? stretch_ratio() : 0;
}
bool traces_nodes() { return kernels_on.load() > 0 && graphs_on.load() == 0; }

const Hooks hooks = {on_call,     on_device_work, on_graph,    on_resource,
                     in_callback, stretch,        traces_nodes};

abi::Result enable_hardware_events() {
  static const int error = int(number_in("PILOTLIGHT_SIM_HES_ERROR", 0));
  if (error != 0) return error;
  if (has_context) return abi::kNotSupported;
  for (auto& kind : kinds_on) {
    if (kind.load() != 0) illegal("hardware events after an activity kind was enabled");
  }
  hardware_events = true;
  return abi::kSuccess;
}

Client* client_of(void* subscriber) {
  auto* client = static_cast<Client*>(subscriber);
  if (client < clients || client >= clients + kClients || !client->subscribed) {
    illegal("a subscriber that is none");
  }
  return client;
}

abi::Result add(void** subscriber, abi::Callback callback, void* user, bool v2, bool many) {
  check_process();
  if (subscriber == nullptr || callback == nullptr) return abi::kInvalidParameter;
  if (has_trap("taken")) return abi::kMultipleSubscribers;
  if (has_trap("privileges")) return abi::kInsufficientPrivileges;
  if (has_trap("no_driver")) return abi::kNotInitialized;
  static const int error = int(number_in("PILOTLIGHT_SIM_SUBSCRIBE_ERROR", 0));
  if (error != 0) return static_cast<abi::Result>(error);
  static bool many_allowed = false;
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  uint32_t there = 0;
  for (Client& client : clients) there += client.subscribed ? 1 : 0;
  if (there > 0 && !(many && v2 && many_allowed)) return abi::kMultipleSubscribers;
  // The first one decides.
  if (there == 0) many_allowed = many;
  for (Client& client : clients) {
    if (client.subscribed) continue;
    client.callback = callback;
    client.user = user;
    client.v2 = v2;
    client.subscribed = true;
    *subscriber = &client;
    gpu_sim_attach(&hooks);
    return abi::kSuccess;
  }
  return abi::kMultipleSubscribers;
}

void set_kind(Client* client, uint32_t kind, bool on) {
  if (client->kinds[kind].exchange(on ? 1 : 0) == (on ? 1 : 0)) return;
  kinds_on[kind] += on ? 1 : -1;
  if (kind == abi::kConcurrentKernel) kernels_on += on ? 1 : -1;
  if (kind == abi::kGraphTrace) graphs_on += on ? 1 : -1;
}

abi::Result enable_kind(Client* client, uint32_t kind, bool on) {
  check_process();
  if (kind >= kKinds || (size_of(kind) == 0 && kind != abi::kOverhead)) return abi::kInvalidKind;
  if (client->request == nullptr && client->request2 == nullptr) return abi::kUnknown;
  if (inside == kBufferCallback) illegal("an activity switched inside a buffer callback");
  if (on && kVersion < 27 && kind == abi::kConcurrentKernel && gpu_sim::pc_sampling_on()) {
    return abi::kNotCompatible;
  }
  if (on && has_trap("no_kernels") && kind == abi::kConcurrentKernel) return abi::kNotCompatible;
  if (!on && kVersion == 130000 && kind == abi::kConcurrentKernel && client->kinds[kind] != 0) {
    illegal("13.0 GA deadlocks when kernel records are disabled");
  }
  set_kind(client, kind, on);
  return abi::kSuccess;
}

// V1 has no clients: the first entry stands for whoever registered last.
Client* v1_client() { return &clients[0]; }

abi::Result next(uint8_t* buffer, size_t valid, abi::Activity** record) {
  if (buffer == nullptr || record == nullptr) return abi::kInvalidParameter;
  {
    std::lock_guard<std::mutex> lock(out_mutex);
    if (handed.count(buffer) == 0) illegal("records read from a buffer that was not handed over");
  }
  uint8_t* at = buffer;
  if (*record != nullptr) {
    at = reinterpret_cast<uint8_t*>(*record);
    if (at < buffer || at >= buffer + valid) illegal("a record of another buffer");
    at += size_of((*record)->kind);
  }
  if (at >= buffer + valid) return abi::kMaxLimitReached;
  // As a busy machine is to a thread, or a device that is slow to answer.
  static const bool is_slow = has_trap("slow_decode");
  if (is_slow && gettid() != getpid()) {
    timespec pause = {0, 1000000};
    nanosleep(&pause, nullptr);
  }
  static const bool is_cut = has_trap("cut_buffer");
  if (is_cut && at > buffer + valid / 2) return abi::kUnknown;
  *record = reinterpret_cast<abi::Activity*>(at);
  if (size_of((*record)->kind) == 0) return abi::kInvalidKind;
  return abi::kSuccess;
}

}  // namespace

namespace gpu_sim {

void check_caller(const char* function) {
  check_process();
  if (inside == kBufferCallback) illegal(function);
}

bool kernel_records_on() { return kernels_on.load() > 0; }

}  // namespace gpu_sim

extern "C" {

abi::Result cuptiGetVersion(uint32_t* version) {
  *version = kVersion;
  return has_trap("no_driver") && kVersion >= 130400 ? abi::kUnknown : abi::kSuccess;
}

abi::Result cuptiGetTimestamp(uint64_t* ns) {
  if (has_trap("no_clock")) return abi::kNotInitialized;
  *ns = now();
  return abi::kSuccess;
}

abi::Result cuptiSubscribe(void** subscriber, abi::Callback callback, void* user) {
  return add(subscriber, callback, user, false, false);
}

abi::Result cuptiUnsubscribe(void* subscriber) {
  check_process();
  if (inside == kBufferCallback || inside == kResource) {
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
  gpu_sim_attach(&hooks);
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
  return abi::kSuccess;
}

abi::Result cuptiActivityFlushAll(uint32_t flag) {
  check_process();
  if (inside == kBufferCallback) illegal("cuptiActivityFlushAll inside a buffer callback");
  if (inside == kResource) illegal("cuptiActivityFlushAll inside a resource callback");
  if (flag == 1 && has_trap("hang_flush")) {
    while (true) pause();
  }
  for (Client& client : clients) {
    for (Lane& lane : client.lanes) {
      size_t moved = 64;
      while (moved == 64) {
        std::lock_guard<std::recursive_mutex> lock(client.mutex);
        if (client.request == nullptr && client.request2 == nullptr) break;
        moved = lane.pending.size();
        pump(&client, &lane, flag == 1, 64);
        moved -= lane.pending.size();
      }
      std::lock_guard<std::recursive_mutex> lock(client.mutex);
      if (client.request == nullptr && client.request2 == nullptr) continue;
      if (lane.buffer.used > 0 || flag == 1) hand_over(&client, &lane.buffer);
    }
  }
  return abi::kSuccess;
}

abi::Result cuptiActivityFlushPeriod(uint32_t) { return abi::kSuccess; }

abi::Result cuptiActivityGetNextRecord(uint8_t* buffer, size_t valid, abi::Activity** record) {
  return next(buffer, valid, record);
}

abi::Result cuptiActivityGetNumDroppedRecords(void*, uint32_t, size_t* dropped) {
  *dropped = v1_client()->dropped.exchange(0);
  return abi::kSuccess;
}

abi::Result cuptiGetGraphNodeId(void* node, uint64_t* id) {
  *id = gpu_sim_node_id(node);
  return abi::kSuccess;
}

abi::Result cuptiFinalize() {
  check_process();
  if (inside == kBufferCallback || inside == kResource) {
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

// 13.0 exports this one of V2 alone.
abi::Result cuptiSubscribe_v2(void** subscriber, abi::Callback callback, void* user,
                              abi::SubscriberParams* params) {
  if (params != nullptr && params->struct_bytes != sizeof(abi::SubscriberParams)) {
    illegal("CUpti_SubscriberParams with a wrong structSize");
  }
  bool many = params != nullptr && params->allow_multiple != 0;
  if (many && !kHasV2) return abi::kMultipleSubscribers;
  return add(subscriber, callback, user, true, many);
}

abi::Result cuptiActivityRegisterCallbacks_v2(void* subscriber, abi::RequestBuffer2 request,
                                              abi::CompleteBuffer2 complete) {
  Client* client = client_of(subscriber);
  if (!client->v2) return abi::kNotCompatible;
  client->request2 = request;
  client->complete2 = complete;
  start_pump();
  return abi::kSuccess;
}

abi::Result cuptiActivityEnable_v2(void* subscriber, uint32_t kind, void*) {
  return enable_kind(client_of(subscriber), kind, true);
}

abi::Result cuptiActivityDisable_v2(void* subscriber, uint32_t kind, void*) {
  return enable_kind(client_of(subscriber), kind, false);
}

abi::Result cuptiActivityGetNextRecord_v2(void* subscriber, uint8_t* buffer, size_t valid,
                                          abi::Activity** record) {
  client_of(subscriber);
  return next(buffer, valid, record);
}

abi::Result cuptiActivitySetAttribute_v2(void* subscriber, uint32_t attribute, size_t* bytes,
                                         void* value) {
  Client* client = client_of(subscriber);
  if (attribute == abi::kHardwareEvents) return enable_hardware_events();
  if (attribute == abi::kZeroedOutBuffer) client->zeroed = *static_cast<uint8_t*>(value) != 0;
  return *bytes == 1 ? abi::kSuccess : abi::kInvalidParameter;
}

abi::Result cuptiActivityGetNumDroppedRecords_v2(void* subscriber, void*, uint32_t,
                                                 size_t* dropped) {
  *dropped = client_of(subscriber)->dropped.exchange(0);
  return abi::kSuccess;
}

}  // extern "C"
