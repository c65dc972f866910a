// native/tests/gpu_sim/graphs_sim.cpp: CUDA graphs: captured, made ready, launched.
#include "cuda_sim.h"

using namespace gpu_sim;

namespace {

std::atomic<uint32_t> graphs{0};
std::atomic<uint64_t> nodes{0};

// Two ways in which the real CUPTI may keep to what was asked for when the graph was made. Turns
// are odd while graphs are shown as a whole.
bool is_shown(const Graph& graph, bool one_by_one) {
  const Hooks* h = hooks.load(std::memory_order_acquire);
  if (h == nullptr) return true;
  static const bool is_settled = has_trap("graphs_settled");
  static const bool is_once = has_trap("graphs_whole_once");
  if (is_settled) return graph.turn % 2 == h->graph_turn() % 2;
  return !is_once || one_by_one || graph.turn == h->graph_turn();
}

// With new nodes, each told with the one that it comes from.
Graph* clone(const Graph& from) {
  const Hooks* h = hooks.load(std::memory_order_acquire);
  auto* to = new Graph{++graphs, {}, h != nullptr ? h->graph_turn() : 0};
  for (Node* node : from.nodes) {
    auto* copy = new Node(*node);
    copy->id = ++nodes;
    if (node->child != nullptr) copy->child = clone(*node->child);
    to->nodes.push_back(copy);
    GraphEvent event = {20, to, copy, node};
    if (h != nullptr) h->graph(&event);
  }
  return to;
}

// Those that do something, also inside child graphs, in order.
std::vector<Node*> leaves(const Graph& graph) {
  std::vector<Node*> found;
  for (Node* node : graph.nodes) {
    if (node->child == nullptr) {
      found.push_back(node);
      continue;
    }
    for (Node* inner : leaves(*node->child)) found.push_back(inner);
  }
  return found;
}

// As in cuda.h, as far as it is read here.
struct KernelNodeParams {
  void* function;
  unsigned grid[3], block[3];
  unsigned shared_bytes;
  void **parameters, **extra;
};

}  // namespace

namespace gpu_sim {

void add_node(Graph* graph, const Node& node) {
  Node* added = new Node(node);
  added->id = ++nodes;
  graph->nodes.push_back(added);
  const Hooks* h = hooks.load(std::memory_order_acquire);
  GraphEvent event = {13, graph, added, nullptr};
  if (h != nullptr) h->graph(&event);
}

}  // namespace gpu_sim

extern "C" {

uint64_t gpu_sim_node_id(void* node) { return static_cast<Node*>(node)->id; }

int cuStreamBeginCapture_v2(void* stream, int) {
  auto* s = static_cast<Stream*>(stream);
  if (s == nullptr || s->capturing != nullptr) return kInvalidValue;
  s->capturing = new Graph{++graphs, {}, 0};
  return kSuccess;
}

int cuStreamEndCapture(void* stream, void** graph) {
  auto* s = static_cast<Stream*>(stream);
  *graph = s->capturing;
  s->capturing = nullptr;
  return *graph != nullptr ? kSuccess : kInvalidValue;
}

int cuGraphInstantiateWithFlags(void** exec, void* graph, unsigned long long) {
  *exec = clone(*static_cast<Graph*>(graph));
  return kSuccess;
}

int cuGraphCreate(void** graph, unsigned) {
  *graph = new Graph{++graphs, {}, 0};
  return kSuccess;
}

int cuGraphClone(void** to, void* from) {
  *to = clone(*static_cast<Graph*>(from));
  return kSuccess;
}

int cuGraphAddKernelNode_v2(void** node, void* graph, const void*, size_t,
                            const KernelNodeParams* params) {
  auto* function = static_cast<Function*>(params->function);
  if (!function->module->alive) return kInvalidHandle;
  uint64_t length_ns = 1;
  for (unsigned size : params->grid) length_ns *= size;
  for (unsigned size : params->block) length_ns *= size;
  add_node(static_cast<Graph*>(graph), {0, kKernel, function->name, length_ns, 0, 0});
  *node = static_cast<Graph*>(graph)->nodes.back();
  return kSuccess;
}

int cuGraphAddChildGraphNode(void** node, void* graph, const void*, size_t, void* child) {
  add_node(static_cast<Graph*>(graph), {0, kGraph, nullptr, 0, 0, 0});
  Node* added = static_cast<Graph*>(graph)->nodes.back();
  // A copy of its own: what is done to the child afterwards does not change it.
  added->child = clone(*static_cast<Graph*>(child));
  *node = added;
  return kSuccess;
}

// The nodes stay who they are and do what those of the other graph do.
int cuGraphExecUpdate_v2(void* exec, void* graph, void*) {
  auto *to = static_cast<Graph*>(exec), *from = static_cast<Graph*>(graph);
  if (to->nodes.size() != from->nodes.size()) return kInvalidValue;
  for (size_t i = 0; i < to->nodes.size(); i++) {
    uint64_t id = to->nodes[i]->id;
    *to->nodes[i] = *from->nodes[i];
    to->nodes[i]->id = id;
  }
  return kSuccess;
}

// Whoever launches one that is gone has made a mistake.
int cuGraphExecDestroy(void* exec) {
  static_cast<Graph*>(exec)->id = 0;
  return kSuccess;
}

int cuGraphDestroy(void* graph) { return cuGraphExecDestroy(graph); }

int cuGraphLaunch(void* exec, void* handle) {
  Api api(514, "cuGraphLaunch", nullptr);
  Stream* stream = stream_of(handle);
  int error = check(stream);
  if (error != kSuccess) return error;
  auto* graph = static_cast<Graph*>(exec);
  if (graph->id == 0) return kInvalidHandle;
  const Hooks* h = hooks.load(std::memory_order_acquire);
  bool one_by_one = h != nullptr && h->traces_nodes();
  Work whole = {};
  whole.kind = kGraph;
  whole.correlation = api.correlation();
  whole.graph = graph->id;
  std::vector<Work> works;
  {
    std::lock_guard<std::mutex> lock(stream->context->device->mutex);
    for (Node* node : leaves(*graph)) {
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
      if (whole.start_ns == 0) {
        whole.device = work.device;
        whole.context = work.context;
        whole.stream = work.stream;
        whole.start_ns = work.start_ns;
      }
      whole.end_ns = work.end_ns;
      if (node->kind == kKernel) {
        launches.fetch_add(1, std::memory_order_relaxed);
        kernel_ns.fetch_add(work.end_ns - work.start_ns, std::memory_order_relaxed);
      }
      if (one_by_one) works.push_back(work);
    }
  }
  if (is_shown(*graph, one_by_one)) {
    for (const Work& work : works) tell_work(work);
    if (!one_by_one) tell_work(whole);
  }
  wait_for_room(stream);
  return kSuccess;
}

}  // extern "C"
