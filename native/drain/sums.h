// native/drain/sums.h: what remains of every record: counts, times and log-histograms by window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pilotlight {

constexpr int64_t kWindowNs = 10000000000;

enum class SumKind : uint8_t { kRange = 1, kSample = 2, kGc = 3, kStep = 4 };

// Eight buckets an octave; exact below 8 ns. See docs/recording.md.
inline uint32_t histogram_bucket(uint64_t ns) noexcept {
  if (ns < 8) return static_cast<uint32_t>(ns);
  uint32_t exponent = 63 - static_cast<uint32_t>(__builtin_clzll(ns));
  return 8 * (exponent - 2) + static_cast<uint32_t>((ns >> (exponent - 3)) & 7);
}

struct SumRow {
  int64_t start_ns;
  uint32_t id;
  uint8_t kind;
  uint8_t state;
  uint64_t count;
  int64_t total_ns;
  int64_t min_ns;
  int64_t max_ns;
};

struct HistogramRow {
  int64_t start_ns;
  uint32_t id;
  uint8_t kind;
  uint16_t bucket;
  uint64_t count;
};

// The sums of one window: two open-addressing tables of bounded size. When a window has too many
// different keys, the rest is summed under id 0.
class Window {
 public:
  explicit Window(int64_t start_ns) : start_ns_(start_ns), sums_(64), buckets_(64) {}

  void add(SumKind kind, uint8_t state, uint32_t id, int64_t ns);

  int64_t start_ns() const noexcept { return start_ns_; }
  void rows(std::vector<SumRow>* sums, std::vector<HistogramRow>* histograms) const;

 private:
  struct Sum {
    uint64_t key;  // 0: empty
    uint64_t count;
    int64_t total_ns, min_ns, max_ns;
  };
  struct Bucket {
    uint64_t key;  // 0: empty
    uint64_t count;
  };
  static constexpr uint32_t kMaxKeys = 1 << 15;

  Sum* find_sum(uint64_t key);
  Bucket* find_bucket(uint64_t key);

  int64_t start_ns_;
  std::vector<Sum> sums_;
  std::vector<Bucket> buckets_;
  uint32_t sums_used_ = 0;
  uint32_t buckets_used_ = 0;
};

// The windows that are still open, oldest first; at most kOpen, the oldest is closed early.
class Sums {
 public:
  void add(SumKind kind, uint8_t state, uint32_t id, int64_t end_ns, int64_t ns) {
    int64_t start = end_ns - end_ns % kWindowNs;
    if (windows_.empty() || windows_.back().start_ns() != start) {
      find(start)->add(kind, state, id, ns);
    } else {
      windows_.back().add(kind, state, id, ns);
    }
  }

  // Moves the rows of windows that ended before `until_ns` out.
  void take(int64_t until_ns, std::vector<SumRow>* sums, std::vector<HistogramRow>* histograms);

 private:
  static constexpr size_t kOpen = 6;
  Window* find(int64_t start_ns);

  std::vector<Window> windows_;
  std::vector<SumRow> early_sums_;
  std::vector<HistogramRow> early_histograms_;
};

}  // namespace pilotlight
