// native/replay/module.cpp: pilotlight._replay, graphs of recorded jobs as Python sees them.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>

#include <stdexcept>
#include <utility>
#include <vector>

#include "replay/graph.h"
#include "replay/recorded.h"

namespace nb = nanobind;

namespace pilotlight::replay {
namespace {

template <typename T>
using Array = nb::ndarray<const T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;
template <typename T>
using Filled = nb::ndarray<T, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

void check(bool holds, const char* text) {
  if (!holds) throw std::invalid_argument(text);
}

Graph graph_of(const Array<int64_t>& first, const Array<int64_t>& predecessors) {
  check(first.size() > 0 && first.data()[0] == 0, "`first` has a place more than there are nodes");
  for (size_t i = 1; i < first.size(); i++) {
    check(first.data()[i - 1] <= first.data()[i], "`first` descends");
  }
  size_t last = static_cast<size_t>(first.data()[first.size() - 1]);
  check(last == predecessors.size(), "`first` ends elsewhere than `predecessors`");
  return {first.size() - 1, first.data(), predecessors.data()};
}

bool put_nodes_in_order(Array<int64_t> first, Array<int64_t> predecessors, Filled<int64_t> order) {
  Graph graph = graph_of(first, predecessors);
  check(order.size() == graph.nodes, "`order` has a place for each node");
  nb::gil_scoped_release released;
  return put_in_order(graph, order.data());
}

void replay_nodes(Array<int64_t> first, Array<int64_t> predecessors, Array<int64_t> order,
                  Array<double> duration, Filled<double> end) {
  Graph graph = graph_of(first, predecessors);
  bool same = order.size() == graph.nodes && duration.size() == graph.nodes;
  check(same && end.size() == graph.nodes, "a place for each node");
  auto inside = [&](const Array<int64_t>& nodes) {
    for (size_t i = 0; i < nodes.size(); i++) {
      if (static_cast<uint64_t>(nodes.data()[i]) >= graph.nodes) return false;
    }
    return true;
  };
  check(inside(order) && inside(predecessors), "a node that does not exist");
  nb::gil_scoped_release released;
  replay(graph, order.data(), duration.data(), end.data());
}

template <typename T, typename U>
nb::object array_of(std::vector<U>&& values) {
  static_assert(sizeof(T) == sizeof(U));
  auto* kept = new std::vector<U>(std::move(values));
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<U>*>(p); });
  auto* data = reinterpret_cast<T*>(kept->data());
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(data, {kept->size()}, owner));
}

struct Spans {
  Array<uint32_t> lane;
  Array<int64_t> start_ns, duration_ns;
  Array<uint32_t> name;

  Columns columns() const {
    bool same = lane.size() == name.size() && start_ns.size() == name.size();
    check(same && duration_ns.size() == name.size(), "columns of different lengths");
    return {name.size(), lane.data(), start_ns.data(), duration_ns.data(), name.data()};
  }
};

nb::tuple add_rank(Recorded& graph, int32_t rank, int64_t begin_ns, const Spans& device,
                   Array<uint8_t> role, Array<uint8_t> collects, Array<uint8_t> receives,
                   Array<uint8_t> optimizes, Array<int64_t> launch, Array<int64_t> collective,
                   Array<double> transfer_ns, const Spans& calls, Array<uint8_t> holds,
                   Array<int64_t> given_ns, const Spans& waits, Array<int64_t> waits_given_ns) {
  Rank one{};
  one.rank = rank;
  one.begin_ns = begin_ns;
  one.calls = calls.columns();
  bool whole = holds.size() == one.calls.rows && given_ns.size() == one.calls.rows;
  check(whole, "columns of different lengths");
  one.holds = reinterpret_cast<const Hold*>(holds.data());
  one.given_ns = given_ns.data();
  one.waits = waits.columns();
  check(waits_given_ns.size() == one.waits.rows, "columns of different lengths");
  one.waits_given_ns = waits_given_ns.data();
  Device& made = one.device;
  made.spans = device.columns();
  size_t rows = made.spans.rows;
  bool same = role.size() == rows && collects.size() == rows && optimizes.size() == rows;
  same = same && receives.size() == rows;
  same = same && launch.size() == rows && collective.size() == rows && transfer_ns.size() == rows;
  check(same, "columns of different lengths");
  for (size_t i = 0; i < rows; i++) {
    int64_t call = launch.data()[i];
    check(call == kNone || static_cast<uint64_t>(call) < one.calls.rows, "a call not among them");
  }
  made.role = reinterpret_cast<const Role*>(role.data());
  made.collects = collects.data();
  made.receives = receives.data();
  made.optimizes = optimizes.data();
  made.launch = launch.data();
  made.collective = collective.data();
  made.transfer_ns = transfer_ns.data();
  std::vector<HostTime> times = graph.add(one);
  std::vector<int64_t> node, since_ns, until_ns;
  for (const HostTime& time : times) {
    node.push_back(time.node);
    since_ns.push_back(time.since_ns);
    until_ns.push_back(time.until_ns);
  }
  return nb::make_tuple(array_of<int64_t>(std::move(node)), array_of<int64_t>(std::move(since_ns)),
                        array_of<int64_t>(std::move(until_ns)));
}

nb::dict transfers(const Recorded& graph) {
  nb::dict found;
  for (auto [collective, node] : graph.transfer_of) found[nb::int_(collective)] = node;
  return found;
}

void fill_edges(const Recorded& graph, Filled<int64_t> first, Filled<int64_t> predecessors) {
  bool fits = first.size() == graph.role.size() + 1 && predecessors.size() == graph.edge_count();
  check(fits, "a place for each node and edge");
  graph.edges(first.data(), predecessors.data());
}

}  // namespace
}  // namespace pilotlight::replay

NB_MODULE(_replay, m) {
  using namespace pilotlight::replay;
  m.def("put_in_order", &put_nodes_in_order, nb::arg("first"), nb::arg("predecessors"),
        nb::arg("order"));
  m.def("replay", &replay_nodes, nb::arg("first"), nb::arg("predecessors"), nb::arg("order"),
        nb::arg("duration"), nb::arg("end"));
  nb::class_<Spans>(m, "Spans")
      .def(
          "__init__",
          [](Spans* made, Array<uint32_t> lane, Array<int64_t> start_ns, Array<int64_t> duration_ns,
             Array<uint32_t> name) { new (made) Spans{lane, start_ns, duration_ns, name}; },
          nb::arg("lane"), nb::arg("start_ns"), nb::arg("duration_ns"), nb::arg("name"));
  nb::class_<Recorded>(m, "Recorded")
      .def(
          "__init__",
          [](Recorded* made, uint32_t host, uint32_t device) {
            new (made) Recorded(Names{host, device});
          },
          nb::arg("host_name"), nb::arg("device_name"))
      .def("add_rank", &add_rank, nb::kw_only(), nb::arg("rank"), nb::arg("begin_ns"),
           nb::arg("device"), nb::arg("role"), nb::arg("collects"), nb::arg("receives"),
           nb::arg("optimizes"), nb::arg("launch"), nb::arg("collective"), nb::arg("transfer_ns"),
           nb::arg("calls"), nb::arg("holds"), nb::arg("given_ns"), nb::arg("waits"),
           nb::arg("waits_given_ns"))
      .def("node_count", [](const Recorded& g) { return g.role.size(); })
      .def("edge_count", &Recorded::edge_count)
      .def("fill_edges", &fill_edges, nb::arg("first"), nb::arg("predecessors"))
      .def("transfers", &transfers)
      // These give their columns away.
      .def("role", [](Recorded& g) { return array_of<uint8_t>(std::move(g.role)); })
      .def("rank", [](Recorded& g) { return array_of<int32_t>(std::move(g.rank)); })
      .def("name", [](Recorded& g) { return array_of<uint32_t>(std::move(g.name)); })
      .def("duration_ns", [](Recorded& g) { return array_of<double>(std::move(g.duration_ns)); })
      .def("waiting", [](Recorded& g) { return array_of<uint32_t>(std::move(g.waiting)); });
}
