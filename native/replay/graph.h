// native/replay/graph.h: what waits for what, and when everything ends.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pilotlight::replay {

// predecessors[first[i]] to predecessors[first[i + 1] - 1] are those that node i waits for.
struct Graph {
  size_t nodes;
  const int64_t* first;
  const int64_t* predecessors;
};

// Fills `order` so that every node comes after those it waits for. False: some wait for each other
// in a circle, or for nodes that do not exist.
[[nodiscard]] bool put_in_order(const Graph& graph, int64_t* order);

// Fills `end`: a node begins at the last end of those it waits for, at 0 if there are none.
void replay(const Graph& graph, const int64_t* order, const double* duration, double* end);

}  // namespace pilotlight::replay
