// native/tests/gpu_sim/cuda_sim.h: the simulated driver's things, shared by its files.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>
#include <string>
#include <vector>

#include "sim.h"

namespace gpu_sim {

enum : int {
  kSuccess = 0,
  kInvalidValue = 1,
  kNotInitialized = 3,
  kNoDevice = 100,
  kInvalidContext = 201,
  kInvalidHandle = 400,
  kLaunchFailed = 719,
};

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
  Graph* child = nullptr;  // then it is that graph, and nothing itself
};

struct Graph {
  uint32_t id;
  std::vector<Node*> nodes;
  uint32_t turn = 0;  // of Hooks::graph_turn, when it was instantiated
};

struct Device {
  uint32_t index;
  uint64_t copy_ready_ns[2];
  Context primary;
  uint32_t streams;
  Stream base;
  std::mutex mutex;
};

extern std::atomic<const Hooks*> hooks;
extern std::atomic<uint32_t> correlations;
extern std::atomic<uint64_t> launches, kernel_ns, calls;
extern std::atomic<bool> initialized;
extern thread_local Context* current;
extern thread_local uint32_t outer_correlation;
extern thread_local int outcome;  // of the call under way

// An API call from its beginning to its end, with what a profiler hears of it.
class Api {
 public:
  Api(uint32_t id, const char* function, const char* symbol, uint32_t domain = 1) {
    const Hooks* h = hooks.load(std::memory_order_acquire);
    calls.fetch_add(1, std::memory_order_relaxed);
    if (h != nullptr && h->in_callback()) illegal("a CUDA call inside a CUPTI callback");
    // A driver call inside a runtime call has the same number.
    call_ = {domain, id, function, symbol, outer_correlation, 0, current, kSuccess};
    outcome = kSuccess;
    is_outer_ = outer_correlation == 0;
    if (is_outer_) outer_correlation = call_.correlation = ++correlations;
    tell(h, false);
  }
  ~Api() {
    call_.result = outcome;
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

void tell_work(const Work& work);
// By how much kernels are longer, now.
double stretch();
// What the environment makes of a length.
uint64_t scaled(double ns);
Stream* stream_of(void* handle);
int check(Stream* stream);
void sleep_until(uint64_t ns);
// Puts work behind what its stream has to do; the caller holds the device.
void place(Stream* stream, uint64_t length_ns, uint64_t* engine, Work* work);
// A launching thread waits while the queue is too deep.
void wait_for_room(Stream* stream);
void add_node(Graph* graph, const Node& node);

}  // namespace gpu_sim

extern "C" int cuModuleGetFunction(void** function, void* module, const char* name);
