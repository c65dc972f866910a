// native/replay/recorded.h: the dependency graph of recorded ranks, a rank at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace pilotlight::replay {

// As in Python's Role.
enum class Role : uint8_t { kHost, kCall, kDelay, kKernel, kCopy, kCollective };

constexpr int64_t kNone = -1;

struct Names {
  uint32_t host, device;
};

// Columns of one kind of span.
struct Columns {
  size_t rows;
  const uint32_t* lane;
  const int64_t* start_ns;
  const int64_t* duration_ns;
  const uint32_t* name;
};

// `launch`: the row of its call, or none. `collective`: a number that all ranks share, or none, and
// what its transfer takes. `collects`, `receives`, `optimizes`: whether it communicates, brings
// what the work after it needs, needs what others did.
struct Device {
  Columns spans;
  const Role* role;
  const uint8_t* collects;
  const uint8_t* receives;
  const uint8_t* optimizes;
  const int64_t* launch;
  const int64_t* collective;
  const double* transfer_ns;
};

// How a call that launches waits for the device: not, because its copy takes the host too, or
// because the program asked for the result.
enum class Hold : uint8_t { kNone, kStaged, kHeld };

// `given_ns` and `waits_given_ns`: since when a call's thread was at what it made the call for;
// before that the trace does not tell what it did.
struct Rank {
  int32_t rank;
  int64_t begin_ns;
  Device device;
  Columns calls;
  const Hold* holds;        // of each call
  const int64_t* given_ns;  // of each call
  Columns waits;            // calls that launch nothing and wait for the device
  const int64_t* waits_given_ns;
};

// The time that a host spent until it made a call.
struct HostTime {
  uint32_t node;
  int64_t since_ns, until_ns;
};

class Recorded {
 public:
  explicit Recorded(Names names) : names_(names) {}

  std::vector<HostTime> add(const Rank& rank);

  // Columns by node.
  std::vector<Role> role;
  std::vector<int32_t> rank;
  std::vector<uint32_t> name;
  std::vector<double> duration_ns;
  std::vector<uint32_t> waiting;                      // nodes of calls that wait for the device
  std::unordered_map<int64_t, uint32_t> transfer_of;  // nodes of collectives

  // Fills both: `first` has a place for each node and one more.
  void edges(int64_t* first, int64_t* predecessors) const;
  size_t edge_count() const { return before_.size() + arrivals_.size(); }

 private:
  friend class Walk;
  struct Arrival {
    uint32_t node, transfer;
  };

  uint32_t node(Role role, int32_t rank, uint32_t name, double length_ns);
  void waits_for(uint32_t before) { before_.push_back(before); }

  Names names_;
  std::vector<uint32_t> first_;  // of each node, in `before_`
  std::vector<uint32_t> before_;
  std::vector<Arrival> arrivals_;  // what transfers wait for
};

}  // namespace pilotlight::replay
