// native/replay/recorded.cpp: walks a rank in the order of time and adds what waits for what.
#include "replay/recorded.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace pilotlight::replay {
namespace {

// Streams hand over to each other by events within a few microseconds; those of ROCm take up to 20,
// which is told from chance where the wait was many times as long.
constexpr int64_t kHandoverNs = 10'000;
constexpr double kSlowHandoverNs = 50'000;
constexpr double kHandoverRatio = 0.02;

// A launch reaches an idle device within this time.
constexpr int64_t kLaunchNs = 50'000;

// CUDA takes about 1024 launches ahead of the device; the next call returns when one of them is
// done.
constexpr size_t kFullQueue = 1000;

// A thread waited for another that launched so often meanwhile, if it goes on within this time or
// this part of its wait after the other's last call.
constexpr int64_t kThreadGapNs = 100'000;
constexpr int64_t kThreadGapParts = 10;
constexpr int64_t kThreadLaunches = 10;
constexpr size_t kMostThreads = 256;  // of more it is not asked: each is compared with all others
constexpr size_t kMostReturns = 256;  // looked at for one call, from the last

struct Ended {
  uint32_t node;
  int64_t ns;
};

// A call that waited for the device, and what that had done last when it returned.
struct Awaited {
  uint32_t lane;
  int64_t since_ns;
  Ended ended;
  Ended result;
};

// The last two of a lane: where the last goes on, others can only have waited for the one before.
struct Lasts {
  uint32_t lane;
  Ended last;
  Ended before = {UINT32_MAX, INT64_MAX};

  const Ended* ended_by(int64_t time_ns) const {
    if (last.ns <= time_ns) return &last;
    return before.ns <= time_ns ? &before : nullptr;
  }
};

// In the order of their first.
class LastOf {
 public:
  void set(uint32_t lane, Ended last) {
    auto [found, is_new] = place_.try_emplace(lane, lasts_.size());
    if (is_new) {
      lasts_.push_back({lane, last});
    } else {
      Lasts& lasts = lasts_[found->second];
      lasts.before = std::exchange(lasts.last, last);
    }
  }
  const Ended* find(uint32_t lane) const {
    auto found = place_.find(lane);
    return found == place_.end() ? nullptr : &lasts_[found->second].last;
  }
  const std::vector<Lasts>& all() const { return lasts_; }

 private:
  std::unordered_map<uint32_t, size_t> place_;
  std::vector<Lasts> lasts_;
};

// Of one time: what waited is over before the host goes on.
struct Event {
  int64_t time_ns;
  enum : uint8_t { kReturn, kWait, kCall, kSpan } what;
  uint32_t row;

  bool operator<(const Event& other) const {
    return std::tie(time_ns, what, row) < std::tie(other.time_ns, other.what, other.row);
  }
};

}  // namespace

class Walk {
 public:
  Walk(Recorded& graph, const Rank& rank)
      : graph_(graph),
        rank_(rank),
        launched_(rank.calls.rows, {kUnknown, kUnknown}),
        held_(rank.holds, rank.holds + rank.calls.rows) {}

  std::vector<HostTime> run() {
    for (const Event& event : events()) {
      if (event.what == Event::kCall) {
        call(event.row);
      } else if (event.what == Event::kReturn) {
        give_back(event.row);
      } else if (event.what == Event::kWait) {
        wait(event.row);
      } else {
        span(event.row);
      }
    }
    return std::move(host_times_);
  }

 private:
  static constexpr uint32_t kUnknown = UINT32_MAX;
  struct Launched {
    uint32_t arrival, returned;
  };
  struct Computed {
    int64_t called_ns;
    Ended ended;
  };

  // Only calls that launched something count.
  std::vector<Event> events() {
    const Device& device = rank_.device;
    std::vector<int64_t> done_ns(rank_.calls.rows, INT64_MIN);
    for (size_t i = 0; i < device.spans.rows; i++) {
      if (device.launch[i] == kNone) continue;
      int64_t& done = done_ns[static_cast<size_t>(device.launch[i])];
      done = std::max(done, device.spans.start_ns[i] + device.spans.duration_ns[i]);
    }
    std::vector<Event> found;
    for (size_t i = 0; i < rank_.calls.rows; i++) {
      if (done_ns[i] == INT64_MIN) continue;
      found.push_back({rank_.calls.start_ns[i], Event::kCall, static_cast<uint32_t>(i)});
    }
    hold_at_full_queue(found, done_ns);
    for (size_t i = 0, calls = found.size(); i < calls; i++) {
      uint32_t row = found[i].row;
      if (rank_.calls.duration_ns[row] <= 0) held_[row] = Hold::kNone;
      if (held_[row] == Hold::kNone) continue;
      found.push_back({found[i].time_ns + rank_.calls.duration_ns[row], Event::kReturn, row});
    }
    for (size_t i = 0; i < rank_.waits.rows; i++) {
      int64_t end = rank_.waits.start_ns[i] + rank_.waits.duration_ns[i];
      found.push_back({end, Event::kWait, static_cast<uint32_t>(i)});
    }
    for (size_t i = 0; i < device.spans.rows; i++) {
      found.push_back({device.spans.start_ns[i], Event::kSpan, static_cast<uint32_t>(i)});
    }
    std::sort(found.begin(), found.end());
    return found;
  }

  void hold_at_full_queue(std::vector<Event> calls, std::vector<int64_t> done_ns) {
    if (calls.size() <= kFullQueue) return;
    std::sort(calls.begin(), calls.end());
    std::sort(done_ns.begin(), done_ns.end());
    size_t done = static_cast<size_t>(std::upper_bound(done_ns.begin(), done_ns.end(), INT64_MIN) -
                                      done_ns.begin());
    size_t none = done;
    for (size_t i = 0; i < calls.size(); i++) {
      while (done < done_ns.size() && done_ns[done] <= calls[i].time_ns) done++;
      Hold& hold = held_[calls[i].row];
      if (i >= done - none + kFullQueue && hold == Hold::kNone) hold = Hold::kStaged;
    }
  }

  uint32_t node(Role role, uint32_t name, int64_t length_ns) {
    return graph_.node(role, rank_.rank, name, static_cast<double>(length_ns));
  }

  // The host's own time until it makes a call.
  uint32_t arrive(uint32_t thread, int64_t start_ns, int64_t given_ns) {
    const Ended* before = threads_.find(thread);
    if (before == nullptr && is_told_) before = &told_since_;
    if (before == nullptr) before = ended_last(start_ns);
    int64_t since = before == nullptr ? rank_.begin_ns : before->ns;
    const Ended* other = handed_over(thread, since, start_ns);
    if (other == nullptr) other = awaited_elsewhere(thread, since, given_ns, start_ns);
    if (other != nullptr) since = other->ns;
    uint32_t made = node(Role::kHost, graph_.names_.host, start_ns - since);
    if (before != nullptr) graph_.waits_for(before->node);
    if (other != nullptr) graph_.waits_for(other->node);
    host_times_.push_back({made, since, std::max(since, start_ns)});
    if (!is_told_) told_since_ = {made, start_ns};
    is_told_ = true;
    return made;
  }

  // What the device did before the trace tells of the host is all that is known of that time.
  const Ended* ended_last(int64_t time_ns) const {
    const Ended* found = nullptr;
    for (const Lasts& stream : streams_.all()) {
      const Ended* done = stream.ended_by(time_ns);
      if (done != nullptr && (found == nullptr || done->ns > found->ns)) found = done;
    }
    return found;
  }

  // The last call of another thread, if this one waited for it: that one launched meanwhile, and
  // this goes on when it ends. So does the backward pass after the forward, and the optimizer after
  // both.
  const Ended* handed_over(uint32_t thread, int64_t since_ns, int64_t start_ns) const {
    if (start_ns - since_ns < kThreadGapNs || threads_.all().size() > kMostThreads) return nullptr;
    int64_t latest = start_ns - std::max(kThreadGapNs, (start_ns - since_ns) / kThreadGapParts);
    const Ended* found = nullptr;
    for (const Lasts& other : threads_.all()) {
      const Ended* done = other.lane == thread ? nullptr : other.ended_by(start_ns);
      if (done == nullptr || done->ns < std::max(latest, since_ns)) continue;
      auto calls = launches_.find(other.lane);
      if (calls == launches_.end()) continue;
      auto first = std::lower_bound(calls->second.begin(), calls->second.end(), since_ns);
      if (calls->second.end() - first < kThreadLaunches) continue;
      if (found == nullptr || done->ns > found->ns) found = done;
    }
    return found;
  }

  // The last call of other threads that waited for the device, if such calls took most of a time of
  // which the trace does not tell what this thread did: the program waits in one thread and
  // launches from another. A thread that was given its work takes it up as results come back,
  // whether or not somebody waits for them.
  const Ended* awaited_elsewhere(uint32_t thread, int64_t since_ns, int64_t given_ns,
                                 int64_t start_ns) const {
    if (given_ns - since_ns < kThreadGapNs) return nullptr;
    const Ended* found = nullptr;
    int64_t waited = 0, counted_from = given_ns;
    size_t last = returns_.size() - std::min(returns_.size(), kMostReturns);
    for (size_t i = returns_.size(); i > last && returns_[i - 1].ended.ns > since_ns; i--) {
      const Awaited& other = returns_[i - 1];
      if (other.lane == thread || other.ended.ns > given_ns) continue;
      if (found == nullptr) found = given_ns < start_ns ? &other.result : &other.ended;
      int64_t from = std::max(other.since_ns, since_ns);
      waited += std::max<int64_t>(0, std::min(other.ended.ns, counted_from) - from);
      counted_from = std::min(counted_from, from);
      if (2 * waited >= given_ns - since_ns) return found;
    }
    return nullptr;
  }

  void call(size_t i) {
    const Columns& calls = rank_.calls;
    uint32_t arrival = arrive(calls.lane[i], calls.start_ns[i], rank_.given_ns[i]);
    launches_[calls.lane[i]].push_back(calls.start_ns[i]);
    launched_[i].arrival = arrival;
    if (held_[i] != Hold::kNone) {
      threads_.set(calls.lane[i], {arrival, calls.start_ns[i]});
      return;
    }
    uint32_t made = node(Role::kCall, calls.name[i], calls.duration_ns[i]);
    graph_.waits_for(arrival);
    launched_[i].returned = made;
    threads_.set(calls.lane[i], {made, calls.start_ns[i] + calls.duration_ns[i]});
  }

  void give_back(size_t i) {
    uint32_t made = awaited(rank_.calls, i, launched_[i].arrival);
    launched_[i].returned = made;
    if (held_[i] == Hold::kHeld) graph_.waiting.push_back(made);
  }

  void wait(size_t i) {
    const Columns& waits = rank_.waits;
    uint32_t arrival = arrive(waits.lane[i], waits.start_ns[i], rank_.waits_given_ns[i]);
    graph_.waiting.push_back(awaited(waits, i, arrival));
  }

  // The end of a call that waits for what the device finishes last meanwhile.
  uint32_t awaited(const Columns& calls, size_t i, uint32_t arrival) {
    int64_t start = calls.start_ns[i], end = start + calls.duration_ns[i], latest = start;
    known_.clear();
    Ended result{kUnknown, 0};
    for (const Lasts& stream : streams_.all()) {
      const Ended* done = stream.ended_by(end + kHandoverNs);
      if (done == nullptr || done->ns <= start) continue;
      known_.push_back(*done);
      latest = std::max(latest, done->ns);
      if (done->ns <= end && done->ns == latest) result = *done;
    }
    uint32_t made = node(Role::kCall, calls.name[i], end - latest);
    if (result.node == kUnknown) result = {made, end};
    graph_.waits_for(arrival);
    for (const Ended& one : known_) graph_.waits_for(one.node);
    threads_.set(calls.lane[i], {made, end});
    returns_.push_back({calls.lane[i], start, {made, end}, result});
    return made;
  }

  void span(size_t i) {
    const Columns& spans = rank_.device.spans;
    uint32_t stream = spans.lane[i];
    int64_t start = spans.start_ns[i], end = start + spans.duration_ns[i];
    known_.clear();
    if (const Ended* last = streams_.find(stream)) known_.push_back(*last);
    int64_t call = rank_.device.launch[i];
    bool is_launched = call != kNone && launched_[static_cast<size_t>(call)].arrival != kUnknown;
    Ended launched{};
    if (is_launched) known_.push_back(launched = launch(static_cast<size_t>(call), start));
    int64_t explained = latest_known();
    double handover =
        std::min(kSlowHandoverNs, kHandoverRatio * static_cast<double>(start - explained));
    handover = std::max(static_cast<double>(kHandoverNs), handover);
    for (const Lasts& other : streams_.all()) {
      const Ended* done = other.lane == stream ? nullptr : other.ended_by(start);
      if (done == nullptr || done->ns <= explained) continue;
      if (static_cast<double>(start - done->ns) < handover) known_.push_back(*done);
    }
    if (rank_.device.optimizes[i]) {
      for (const Lasts& other : collectives_.all()) {
        if (const Ended* done = other.ended_by(start)) known_.push_back(*done);
      }
    }
    if (is_launched && rank_.device.collects[i]) {
      need_computed(static_cast<size_t>(call));
    } else if (is_launched) {
      need_received(stream, rank_.calls.start_ns[static_cast<size_t>(call)]);
    }
    // The way of a launch to the device takes no time of the device: where the host runs ahead, it
    // is over before the device is free.
    int64_t latest = latest_known();
    bool is_on_its_way = is_launched && launched.ns == latest && start - latest <= kLaunchNs;
    uint32_t delay = node(Role::kDelay, graph_.names_.device, start - latest);
    if (is_on_its_way) {
      graph_.waits_for(launched.node);
    } else {
      for (const Ended& one : known_) graph_.waits_for(one.node);
      known_.clear();
    }
    uint32_t made = work(i, delay);
    streams_.set(stream, {made, end});
    if (rank_.device.collects[i]) collectives_.set(stream, {made, end});
    if (!is_launched) return;
    int64_t called_ns = rank_.calls.start_ns[static_cast<size_t>(call)];
    if (rank_.device.receives[i]) {
      received_.set(stream, {made, end});
    } else if (!rank_.device.collects[i]) {
      computed_[rank_.calls.lane[static_cast<size_t>(call)]].push_back({called_ns, {made, end}});
    }
  }

  // A group's operation begins after what its thread launched before it: frameworks see to that by
  // an event. Where the host waited for the device in between, no stream shows it.
  void need_computed(size_t call) {
    int64_t called_ns = rank_.calls.start_ns[call];
    const std::vector<Computed>& all = computed_[rank_.calls.lane[call]];
    size_t last = all.size() - std::min(all.size(), kMostReturns);
    for (size_t i = all.size(); i > last; i--) {
      if (all[i - 1].called_ns >= called_ns) continue;
      if (all[i - 1].ended.ns <= called_ns) known_.push_back(all[i - 1].ended);
      return;
    }
  }

  // Likewise what was launched when a message had come needs it.
  void need_received(uint32_t stream, int64_t called_ns) {
    for (const Lasts& other : received_.all()) {
      const Ended* done = other.lane == stream ? nullptr : other.ended_by(called_ns);
      if (done == nullptr) continue;
      uint32_t& used = used_[{stream, other.lane}];
      if (used != done->node) known_.push_back(*done);
      used = done->node;
    }
  }

  // A device may begin before the call that launched it has returned.
  Ended launch(size_t call, int64_t start_ns) const {
    int64_t begin = rank_.calls.start_ns[call], end = begin + rank_.calls.duration_ns[call];
    bool is_over = start_ns >= end && launched_[call].returned != kUnknown;
    return is_over ? Ended{launched_[call].returned, end} : Ended{launched_[call].arrival, begin};
  }

  int64_t latest_known() const {
    if (known_.empty()) return rank_.begin_ns;
    auto by_end = [](const Ended& a, const Ended& b) { return a.ns < b.ns; };
    return std::max_element(known_.begin(), known_.end(), by_end)->ns;
  }

  // What the device did itself, after the delay and what is known to come before; of a collective
  // that other ranks have too, the part they share.
  uint32_t work(size_t i, uint32_t delay) {
    const Device& device = rank_.device;
    int64_t collective = device.collective[i];
    if (collective == kNone) {
      uint32_t made = node(device.role[i], device.spans.name[i], device.spans.duration_ns[i]);
      graph_.waits_for(delay);
      for (const Ended& one : known_) graph_.waits_for(one.node);
      return made;
    }
    auto [found, is_new] = graph_.transfer_of.try_emplace(collective, 0);
    if (is_new) {
      found->second =
          graph_.node(Role::kCollective, kNone, device.spans.name[i], device.transfer_ns[i]);
    }
    graph_.arrivals_.push_back({delay, found->second});
    for (const Ended& one : known_) graph_.arrivals_.push_back({one.node, found->second});
    return found->second;
  }

  Recorded& graph_;
  const Rank& rank_;
  std::vector<Launched> launched_;
  std::vector<Hold> held_;
  LastOf threads_, streams_, collectives_, received_;
  std::unordered_map<uint32_t, std::vector<Computed>> computed_;  // of each thread, in order
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> used_;  // the last message, by both streams
  std::unordered_map<uint32_t, std::vector<int64_t>> launches_;  // of each thread, in order
  std::vector<Awaited> returns_;                                 // in order
  Ended told_since_{};                                           // the first that a thread did
  bool is_told_ = false;
  std::vector<Ended> known_;
  std::vector<HostTime> host_times_;
};

std::vector<HostTime> Recorded::add(const Rank& rank) { return Walk(*this, rank).run(); }

uint32_t Recorded::node(Role what, int32_t of_rank, uint32_t named, double length_ns) {
  role.push_back(what);
  rank.push_back(of_rank);
  name.push_back(named);
  duration_ns.push_back(std::max(0.0, length_ns));
  first_.push_back(static_cast<uint32_t>(before_.size()));
  return static_cast<uint32_t>(role.size() - 1);
}

void Recorded::edges(int64_t* first, int64_t* predecessors) const {
  size_t nodes = role.size();
  std::fill(first, first + nodes + 1, 0);
  for (const Arrival& arrival : arrivals_) first[arrival.transfer + 1]++;
  for (size_t i = 0; i < nodes; i++) {
    size_t until = i + 1 < nodes ? first_[i + 1] : before_.size();
    first[i + 1] += first[i] + static_cast<int64_t>(until - first_[i]);
    std::copy(before_.begin() + first_[i], before_.begin() + static_cast<int64_t>(until),
              predecessors + first[i]);
  }
  std::unordered_map<uint32_t, int64_t> next;
  for (const Arrival& arrival : arrivals_) {
    int64_t& place = next.try_emplace(arrival.transfer, first[arrival.transfer]).first->second;
    predecessors[place++] = arrival.node;
  }
}

}  // namespace pilotlight::replay
