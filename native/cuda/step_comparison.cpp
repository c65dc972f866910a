// native/cuda/step_comparison.cpp
#include "cuda/step_comparison.h"

#include <algorithm>
#include <cmath>

namespace pilotlight::cupti {
namespace {

// Two-sided 95 % of Student's t, by degrees of freedom.
double t_of(uint32_t freedom) noexcept {
  constexpr double kTable[] = {12.71, 12.71, 4.30, 3.18, 2.78, 2.57, 2.45, 2.36, 2.31, 2.26, 2.23,
                               2.20,  2.18,  2.16, 2.14, 2.13, 2.12, 2.11, 2.10, 2.09, 2.09, 2.08,
                               2.07,  2.07,  2.06, 2.06, 2.06, 2.05, 2.05, 2.05, 2.04};
  return freedom <= 30 ? kTable[freedom] : 1.96 + 2.4 / freedom;
}

// Of that many, the middle three fifths.
uint32_t kept_of(uint32_t pairs) noexcept { return pairs - 2 * (pairs / 5); }

// Of the variance of an on window less the two off windows around it: what one of these has in
// common with the next on window's. A sixth where all are looked at in as many stretches.
double shared_ratio(uint32_t on_stretches, uint32_t off_stretches) noexcept {
  double on = 1.0 / on_stretches, off = 1.0 / off_stretches;
  return off / 4 / (on + off / 2);
}

}  // namespace

double typical(double* values, uint32_t count) noexcept {
  if (count == 0) return 0;
  std::sort(values, values + count);
  // Rounded up: of three steps in a short window the longest would count, of forty in a long one
  // the longest ten do not, and that would look like a cost.
  uint32_t cut = std::min((count + 3) / 4, (count - 1) / 2);
  double sum = 0;
  for (uint32_t i = cut; i < count - cut; i++) sum += values[i];
  return sum / (count - 2 * cut);
}

void StepComparison::compare(const WindowSteps& before, const WindowSteps& on,
                             const WindowSteps& after) noexcept {
  // All are looked at in stretches of one width. Of a wide one the middle steps say something else
  // than of a narrow one, where lengths are spread to one side; and long steps seldom fit into it.
  double width_ns = std::min({before.window_ns, on.window_ns, after.window_ns});
  Cycle cycle = {lengths_of(before, width_ns), lengths_of(on, width_ns),
                 lengths_of(after, width_ns)};
  if (cycle.before.count == 0 || cycle.on.count == 0 || cycle.after.count == 0) return;
  cycles_[compared_++ % kKept] = cycle;
  estimate();
}

// The typical step of stretches of that width, evenly spread over the window.
StepComparison::Lengths StepComparison::lengths_of(const WindowSteps& steps,
                                                   double width_ns) noexcept {
  Lengths found = {};
  // Of the steps before the first that was kept nothing is known.
  double first_ns = steps.count == kMaxSteps ? steps.edges_ns[0] : 0;
  double room_ns = std::max(steps.window_ns - first_ns - width_ns, 0.0);
  double places = std::min(room_ns / width_ns, static_cast<double>(kStretches - 1));
  auto stretches = static_cast<uint32_t>(places) + 1;
  for (uint32_t i = 0; i < stretches; i++) {
    double begin_ns = first_ns + (stretches > 1 ? room_ns * i / (stretches - 1) : room_ns / 2);
    const double* end = steps.edges_ns + steps.count + 1;
    const double* edge = std::lower_bound(steps.edges_ns, end, begin_ns);
    double lengths[kMaxSteps];
    uint32_t count = 0;
    for (; edge + 1 < end && edge[1] <= begin_ns + width_ns; edge++) {
      lengths[count++] = edge[1] - edge[0];
    }
    if (count > 0) found.logs[found.count++] = std::log(typical(lengths, count));
  }
  return found;
}

uint32_t StepComparison::differences_of(const Cycle& cycle, uint32_t number,
                                        Difference* into) noexcept {
  uint32_t count = 0;
  for (const Lengths* off : {&cycle.before, &cycle.after}) {
    // What drifts slowly cancels out if both count alike.
    float weight = 0.5F / static_cast<float>(cycle.on.count * off->count);
    for (uint32_t i = 0; i < cycle.on.count; i++) {
      for (uint32_t j = 0; j < off->count; j++) {
        into[count++] = {cycle.on.logs[i] - off->logs[j], weight, number};
      }
    }
  }
  return count;
}

StepComparison::Middle StepComparison::middle_of(Difference* all, uint32_t count,
                                                 uint32_t cycles) noexcept {
  std::sort(all, all + count,
            [](const Difference& a, const Difference& b) { return a.log < b.log; });
  double kept = kept_of(cycles), from = (cycles - kept) / 2, to = from + kept;
  Middle middle = {0, all[0].log, all[0].log};
  double below = 0;
  for (uint32_t i = 0; i < count; i++) {
    double above = below + all[i].weight;
    double inside = std::min(above, to) - std::max(below, from);
    middle.mean += std::max(inside, 0.0) * all[i].log / kept;
    if (below <= from) middle.least = all[i].log;
    if (below < to) middle.most = all[i].log;
    below = above;
  }
  return middle;
}

// The sum of the squares by which cycles differ from their mean. Neighbours share an off window, so
// they go together: at least as much as it has part in the variance. What that hides is added back.
double StepComparison::spread_of(const double* cycles, uint32_t count) const noexcept {
  double center = 0, squares = 0, together = 0, shared = 0;
  for (uint32_t i = 0; i < count; i++) center += cycles[i] / count;
  for (uint32_t i = 0; i < count; i++) {
    double deviation = cycles[i] - center;
    squares += deviation * deviation;
    shared += shared_ratio(cycles_[i].on.count, cycles_[i].after.count) / count;
    bool is_first = i == (compared_ > kKept ? compared_ % kKept : 0);
    if (!is_first) together += deviation * (cycles[(i + kKept - 1) % kKept] - center);
  }
  return squares + 2 * std::max(together, squares * shared);
}

// Each stretch with records is set against each without, around it. Stretches of either sort err
// alike, if often to one side: so their differences lie evenly around the truth, which a mean or
// the middle of several, set against one of the others, would not. Of the differences, the mean of
// the middle three fifths, with the interval that belongs to it (Yuen's): a pause of the machine in
// one window is neither group's fault, and would hide all that the others say. Those of a cycle go
// together, so cycles tell how sure it is.
void StepComparison::estimate() noexcept {
  uint32_t n = std::min(compared_, kKept);
  overhead_.pairs = n;
  if (n < kLeastPairs) return;
  Difference all[kKept * kStretches * kStretches * 2];
  uint32_t count = 0;
  for (uint32_t i = 0; i < n; i++) count += differences_of(cycles_[i], i, all + count);
  Middle middle = middle_of(all, count, n);
  double cycles[kKept] = {};
  for (uint32_t i = 0; i < count; i++) {
    cycles[all[i].cycle] += all[i].weight * std::clamp(all[i].log, middle.least, middle.most);
  }
  double kept = kept_of(n);
  double half = t_of(kept_of(n) - 1) * std::sqrt(spread_of(cycles, n) / (kept * (kept - 1)));
  overhead_.ratio = std::expm1(middle.mean);
  overhead_.low = std::expm1(middle.mean - half);
  overhead_.high = std::expm1(middle.mean + half);
}

double StepComparison::error() const noexcept {
  return (overhead_.high - overhead_.ratio) / t_of(kept_of(overhead_.pairs) - 1);
}

}  // namespace pilotlight::cupti
