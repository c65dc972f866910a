// native/drain/parts.cpp: one sweep over the ends of all intervals and steps.
#include "drain/parts.h"

#include <algorithm>
#include <array>

namespace pilotlight {
namespace {

constexpr int64_t kLatestNs = int64_t{1} << 61;

struct Edge {
  int64_t time_ns;
  uint32_t step;     // whose begin or end it is
  uint8_t category;  // kMostCategories: of a step
  bool begins;
};

bool makes_sense(int64_t start_ns, int64_t duration_ns) {
  return start_ns >= 0 && duration_ns >= 0 && start_ns < kLatestNs && duration_ns < kLatestNs;
}

}  // namespace

std::vector<int64_t> step_parts(const Intervals& intervals, const uint8_t* category,
                                const Intervals& steps, unsigned categories) {
  const size_t count = intervals.start_ns.size(), step_count = steps.start_ns.size();
  std::vector<int64_t> sums(step_count * categories);
  if (categories == 0 || categories > kMostCategories) return sums;
  std::vector<Edge> edges;
  edges.reserve(2 * (count + step_count));
  for (size_t i = 0; i < count; i++) {
    const int64_t start_ns = intervals.start_ns[i], duration_ns = intervals.duration_ns[i];
    if (category[i] >= categories || !makes_sense(start_ns, duration_ns)) continue;
    edges.push_back({start_ns, 0, category[i], true});
    edges.push_back({start_ns + duration_ns, 0, category[i], false});
  }
  for (size_t i = 0; i < step_count; i++) {
    const int64_t start_ns = steps.start_ns[i], duration_ns = steps.duration_ns[i];
    if (!makes_sense(start_ns, duration_ns)) continue;
    const auto step = static_cast<uint32_t>(i);
    edges.push_back({start_ns, step, kMostCategories, true});
    edges.push_back({start_ns + duration_ns, step, kMostCategories, false});
  }
  // Begins before ends: what is empty then begins before it ends.
  std::sort(edges.begin(), edges.end(), [](const Edge& a, const Edge& b) {
    return a.time_ns != b.time_ns ? a.time_ns < b.time_ns : a.begins && !b.begins;
  });
  std::array<int64_t, kMostCategories> active{};
  std::array<int64_t, kMostCategories> covered{};
  int64_t now_ns = 0;
  for (const Edge& edge : edges) {
    for (unsigned c = 0; c < categories; c++) {
      if (active[c] > 0) {
        covered[c] += edge.time_ns - now_ns;
        break;
      }
    }
    now_ns = edge.time_ns;
    if (edge.category < kMostCategories) {
      active[edge.category] += edge.begins ? 1 : -1;
      continue;
    }
    for (unsigned c = 0; c < categories; c++) {
      sums[edge.step * categories + c] += edge.begins ? -covered[c] : covered[c];
    }
  }
  return sums;
}

}  // namespace pilotlight
