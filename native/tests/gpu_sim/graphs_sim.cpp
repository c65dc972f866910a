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
  auto* from = static_cast<Graph*>(graph);
  const Hooks* h = hooks.load(std::memory_order_acquire);
  auto* to = new Graph{++graphs, {}, h != nullptr ? h->graph_turn() : 0};
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
