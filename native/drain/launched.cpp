// native/drain/launched.cpp: one pass over the activities of a commit.
#include "drain/launched.h"

#include <algorithm>
#include <unordered_map>

namespace pilotlight {
namespace {

constexpr int64_t kLatestNs = int64_t{1} << 61;

struct Key {
  int64_t window_ns;
  uint32_t stack, range, name;
  uint8_t kind;

  bool operator==(const Key& other) const {
    return window_ns == other.window_ns && stack == other.stack && range == other.range &&
           name == other.name && kind == other.kind;
  }
};

struct Hash {
  size_t operator()(const Key& key) const {
    uint64_t mixed = static_cast<uint64_t>(key.window_ns) ^ (uint64_t{key.stack} << 32 | key.name);
    mixed = (mixed ^ (uint64_t{key.range} << 8 | key.kind)) * 0x9e3779b97f4a7c15u;
    return static_cast<size_t>(mixed ^ mixed >> 29);
  }
};

struct Sum {
  int64_t count = 0, total_ns = 0, longest_ns = 0;
};

}  // namespace

std::vector<int64_t> launched_sums(const Activities& activities, int64_t window_ns, size_t most,
                                   int64_t* left_out_ns) {
  std::unordered_map<Key, Sum, Hash> sums;
  for (size_t i = 0; i < activities.count; i++) {
    const int64_t start_ns = activities.start_ns[i], duration_ns = activities.duration_ns[i];
    if (start_ns < 0 || duration_ns < 0 || start_ns > kLatestNs || duration_ns > kLatestNs) {
      continue;
    }
    const int64_t end_ns = start_ns + duration_ns;
    const Key key = {end_ns - end_ns % window_ns, activities.stack[i], activities.range[i],
                     activities.name[i], activities.kind[i]};
    auto found = sums.find(key);
    if (found == sums.end()) {
      if (sums.size() >= most) {
        *left_out_ns += duration_ns;
        continue;
      }
      found = sums.emplace(key, Sum{}).first;
    }
    found->second.count++;
    found->second.total_ns += duration_ns;
    found->second.longest_ns = std::max(found->second.longest_ns, duration_ns);
  }
  std::vector<int64_t> rows;
  rows.reserve(kLaunchedColumns * sums.size());
  for (const auto& [key, sum] : sums) {
    rows.insert(rows.end(), {key.window_ns, key.stack, key.range, key.name, key.kind, sum.count,
                             sum.total_ns, sum.longest_ns});
  }
  return rows;
}

}  // namespace pilotlight
