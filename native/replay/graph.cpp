// native/replay/graph.cpp: one pass over the nodes in the order of what they wait for.
#include "replay/graph.h"

#include <algorithm>
#include <vector>

namespace pilotlight::replay {

bool put_in_order(const Graph& graph, int64_t* order) {
  size_t edges = static_cast<size_t>(graph.first[graph.nodes]);
  // successors[begin[i]] to successors[begin[i + 1] - 1] wait for node i.
  std::vector<uint32_t> begin(graph.nodes + 2), successors(edges), waiting(graph.nodes);
  for (size_t i = 0; i < edges; i++) {
    int64_t before = graph.predecessors[i];
    if (before < 0 || static_cast<size_t>(before) >= graph.nodes) return false;
    begin[static_cast<size_t>(before) + 2]++;
  }
  for (size_t i = 2; i < begin.size(); i++) begin[i] += begin[i - 1];
  size_t ready = 0;
  for (size_t node = 0; node < graph.nodes; node++) {
    waiting[node] = static_cast<uint32_t>(graph.first[node + 1] - graph.first[node]);
    if (waiting[node] == 0) order[ready++] = static_cast<int64_t>(node);
    for (int64_t i = graph.first[node]; i < graph.first[node + 1]; i++) {
      successors[begin[static_cast<size_t>(graph.predecessors[i]) + 1]++] =
          static_cast<uint32_t>(node);
    }
  }
  for (size_t done = 0; done < ready; done++) {
    size_t node = static_cast<size_t>(order[done]);
    for (uint32_t i = begin[node]; i < begin[node + 1]; i++) {
      if (--waiting[successors[i]] == 0) order[ready++] = successors[i];
    }
  }
  return ready == graph.nodes;
}

void replay(const Graph& graph, const int64_t* order, const double* duration, double* end) {
  for (size_t i = 0; i < graph.nodes; i++) {
    int64_t node = order[i];
    double begin = 0;
    for (int64_t at = graph.first[node]; at < graph.first[node + 1]; at++) {
      begin = std::max(begin, end[graph.predecessors[at]]);
    }
    end[node] = begin + duration[node];
  }
}

}  // namespace pilotlight::replay
