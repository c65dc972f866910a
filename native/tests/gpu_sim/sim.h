// native/tests/gpu_sim/sim.h: what the simulated driver and the simulated CUPTI share.
//
// A test double, never part of the product. It speaks the real binary interface and is strict: what
// the real libraries forbid ends the process with a line on standard error.
#pragma once

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

namespace gpu_sim {

[[noreturn]] inline void illegal(const char* what) {
  fprintf(stderr, "gpu_sim: illegal: %s\n", what);
  abort();
}

inline double number_in(const char* variable, double otherwise) {
  const char* text = getenv(variable);
  return text != nullptr && text[0] != 0 ? atof(text) : otherwise;
}

// Whether PILOTLIGHT_SIM_TRAPS, a list with commas, names this one.
inline bool has_trap(const char* name) {
  const char* list = getenv("PILOTLIGHT_SIM_TRAPS");
  size_t size = strlen(name);
  while (list != nullptr && *list != 0) {
    size_t item = strcspn(list, ",");
    if (item == size && strncmp(list, name, size) == 0) return true;
    list += item + (list[item] == ',' ? 1 : 0);
  }
  return false;
}

enum WorkKind : uint32_t {
  kKernel,
  kCopy,
  kPeerCopy,
  kSet,
  kSync,
  kGraph,
  kAllocate,
  kFree,
  kOwn,
  kCall,
  kExternal
};

// Something that the device did; kOwn: that CUPTI did itself; kCall: the record of an API call;
// kExternal: an id in front of it.
struct Work {
  WorkKind kind;
  uint32_t device, context, stream;
  uint64_t start_ns, end_ns;
  uint32_t correlation;
  const char* name;  // lives as long as its module
  uint64_t bytes;
  uint32_t copy_kind;
  uint32_t sync_type;
  uint64_t graph_node;
  uint32_t graph;
  uint64_t address;
};

struct Call {
  uint32_t domain, id;
  const char* function;
  const char* symbol;
  uint32_t correlation;
  uint64_t correlation_data;
  void* context;
  int result;  // at its end
};

struct GraphEvent {
  uint32_t id;  // of the resource domain
  void* graph;
  void* node;
  void* original_node;
};

// The simulated CUPTI's functions, called by the simulated driver.
struct Hooks {
  void (*call)(Call* call, bool is_exit);
  void (*work)(const Work* work);
  void (*graph)(const GraphEvent* event);
  void (*resource)(uint32_t id, void* context);
  bool (*in_callback)();
  double (*stretch)();       // of kernels, while they are instrumented
  bool (*traces_nodes)();    // whether the nodes of a graph are told one by one
  uint32_t (*graph_turn)();  // how often that they are told as a whole was turned on or off
};

struct Stats {
  uint64_t launches;     // of kernels, also inside graphs
  uint64_t kernel_ns;    // the truth: what they all took
  uint64_t calls;        // of the API
  uint64_t profiler_ns;  // spent in the simulated CUPTI and its clients, on launching threads
};

}  // namespace gpu_sim

extern "C" {
// Of the simulated libcuda.
void gpu_sim_attach(const gpu_sim::Hooks* hooks);
uint64_t gpu_sim_now();
void gpu_sim_stats(gpu_sim::Stats* stats);
uint64_t gpu_sim_node_id(void* node);
// False: there is no such context, or it has ended.
bool gpu_sim_context(void* context, uint32_t* uid, uint32_t* device);
// Time of a launching thread that went into profiling.
void gpu_sim_spent(uint64_t ns);
}
