// native/scan/interval.cpp
#include "scan/interval.h"

#include <algorithm>

namespace pilotlight::scan {
namespace {

// The begins and ends of a set, in their order.
class Edges {
 public:
  explicit Edges(Intervals set) : set_(set) {}
  bool left() const { return next_ < 2 * set_.count; }
  int64_t time() const { return (next_ & 1 ? set_.end : set_.start)[next_ / 2]; }
  bool inside() const { return next_ & 1; }
  void pass(int64_t time_ns) {
    while (left() && time() == time_ns) next_++;
  }

 private:
  Intervals set_;
  size_t next_ = 0;
};

}  // namespace

ptrdiff_t join(Intervals from, int64_t* start, int64_t* end) {
  size_t count = 0;
  int64_t last = INT64_MIN;
  for (size_t i = 0; i < from.count; i++) {
    if (from.end[i] <= from.start[i]) continue;
    if (from.start[i] < last) return -1;
    last = from.start[i];
    if (count > 0 && from.start[i] <= end[count - 1]) {
      end[count - 1] = std::max(end[count - 1], from.end[i]);
      continue;
    }
    start[count] = from.start[i];
    end[count++] = from.end[i];
  }
  return static_cast<ptrdiff_t>(count);
}

size_t combine(Intervals first, Intervals second, unsigned wanted, int64_t* start, int64_t* end) {
  Edges a(first), b(second);
  size_t count = 0;
  bool open = false;
  while (a.left() || b.left()) {
    int64_t time_ns = !b.left() ? a.time() : !a.left() ? b.time() : std::min(a.time(), b.time());
    a.pass(time_ns);
    b.pass(time_ns);
    bool is = wanted >> (a.inside() + 2 * b.inside()) & 1;
    if (is == open) continue;
    open = is;
    if (is) {
      start[count] = time_ns;
    } else {
      end[count++] = time_ns;
    }
  }
  return count;
}

void covered(Intervals set, int64_t* before, const int64_t* times, size_t count, int64_t* found) {
  before[0] = 0;
  for (size_t i = 0; i < set.count; i++) before[i + 1] = before[i] + set.end[i] - set.start[i];
  for (size_t i = 0; i < count; i++) {
    auto after = static_cast<size_t>(std::upper_bound(set.start, set.start + set.count, times[i]) -
                                     set.start);
    int64_t beyond = after > 0 ? std::max<int64_t>(set.end[after - 1] - times[i], 0) : 0;
    found[i] = before[after] - beyond;
  }
}

}  // namespace pilotlight::scan
