// native/drain/sums.h: what remains of every record: counts, times and log-histograms by window.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

namespace pilotlight {

constexpr int64_t kWindowNs = 10000000000;

enum class SumKind : uint8_t {
  kRange = 1,
  kSample = 2,
  kGc = 3,
  kStep = 4,
  kActivity = 5,
  kCollective = 6
};

// Eight buckets an octave; exact below 8 ns. See docs/recording.md. A double has octave and eighth
// side by side in its upper bits, and making one is cheaper than counting leading zeros where no
// newer instruction for that may be used.
inline uint32_t histogram_bucket(int64_t ns) noexcept {
  if (ns < 8) return static_cast<uint32_t>(ns);
  constexpr uint64_t kEight = 1026 << 3;  // the upper bits of 8.0
  auto value = static_cast<double>(ns);
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint32_t>((bits >> 49) - kEight + 8);
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

// The sums of one window: open-addressing tables of bounded size. When a window has too many
// different keys, the rest is summed under id 0. Rows are taken out many times a second and nearly
// all keys come again, so taking leaves the tables as they are and only sets what was touched to 0.
class Window {
 public:
  explicit Window(int64_t start_ns) : start_ns_(start_ns), sums_(64) {}

  void add(SumKind kind, uint8_t state, uint32_t id, int64_t ns) {
    Sum* sum = find_sum(key_of(kind, state, id));
    if (sum->count++ == 0) touched_.push_back(static_cast<uint32_t>(sum - sums_.data()));
    // Saturates: a hostile producer may state any duration.
    if (__builtin_add_overflow(sum->total_ns, ns, &sum->total_ns)) sum->total_ns = INT64_MAX;
    if (ns < sum->min_ns) sum->min_ns = ns;
    if (ns > sum->max_ns) sum->max_ns = ns;
    if (sum->histogram != kNoHistogram) {
      histograms_[sum->histogram].add(histogram_bucket(ns));
    }
  }

  int64_t start_ns() const noexcept { return start_ns_; }
  void take_rows(std::vector<SumRow>* sums, std::vector<HistogramRow>* histograms);
  // Worth keeping when its rows were taken: not the remains of a flood of keys.
  bool is_small() const noexcept { return used_ <= kMaxKept; }

 private:
  // A line each: a place is found by a shift.
  struct alignas(64) Sum {
    uint64_t key;  // 0: empty
    uint64_t count;
    int64_t total_ns, min_ns, max_ns;
    uint32_t histogram;
  };
  // Of durations up to 2^63 ns.
  struct Histogram {
    static constexpr uint32_t kBuckets = 496;
    std::array<uint32_t, kBuckets> counts = {};
    std::array<uint64_t, (kBuckets + 63) / 64> touched = {};
    // An odd number of lines: durations are alike, and with two kilobytes the same bucket of all
    // names would fall into two sets of the first cache.
    std::array<char, 64> unused = {};

    void add(uint32_t bucket) noexcept {
      counts[bucket]++;
      touched[bucket / 64] |= uint64_t{1} << (bucket % 64);
    }
  };
  static constexpr uint32_t kMaxKeys = 1 << 15;
  static constexpr uint32_t kMaxKept = 1 << 12;
  // 2 MB a window at most; names beyond that have sums but no quantiles.
  static constexpr uint32_t kMaxHistograms = 1024;
  static constexpr uint32_t kNoHistogram = ~0u;

  // kind, state and id in one word that is never 0, since no kind is.
  static uint64_t key_of(SumKind kind, uint8_t state, uint32_t id) noexcept {
    return uint64_t{static_cast<uint8_t>(kind)} << 40 | uint64_t{state} << 32 | id;
  }
  Sum* place_of(uint64_t key) noexcept {
    uint64_t at = (key ^ key >> 32) * 0x9e3779b97f4a7c15ull >> shift_;
    while (sums_[at].key != key && sums_[at].key != 0) at = (at + 1) & mask_;
    return &sums_[at];
  }
  Sum* find_sum(uint64_t key) {
    Sum* sum = place_of(key);
    return sum->key == key ? sum : new_sum(key, sum);
  }
  Sum* new_sum(uint64_t key, Sum* place);
  void grow();

  int64_t start_ns_;
  std::vector<Sum> sums_;
  uint64_t mask_ = 63;  // their number, a power of two, less one
  uint32_t shift_ = 58;
  std::vector<Histogram> histograms_;
  std::vector<uint32_t> touched_;  // places in sums_ with a count
  uint32_t used_ = 0;
};

// The windows that are still open, oldest first; at most kOpen, the oldest is closed early.
class Sums {
 public:
  void add(SumKind kind, uint8_t state, uint32_t id, int64_t end_ns, int64_t ns) {
    if (!windows_.empty()) {
      // Nearly always the newest window: no division then.
      Window& newest = windows_.back();
      if (static_cast<uint64_t>(end_ns - newest.start_ns()) < uint64_t{kWindowNs}) {
        return newest.add(kind, state, id, ns);
      }
    }
    find(end_ns - end_ns % kWindowNs)->add(kind, state, id, ns);
  }

  // Moves the rows of windows that ended before `until_ns` out.
  void take(int64_t until_ns, std::vector<SumRow>* sums, std::vector<HistogramRow>* histograms);
  // Windows that a producer whose times jump about made too many of.
  uint64_t lost() const noexcept { return lost_; }

 private:
  static constexpr size_t kOpen = 6;
  static constexpr size_t kMaxEarly = 1 << 16;
  Window* find(int64_t start_ns);

  std::vector<Window> windows_;
  std::vector<SumRow> early_sums_;
  std::vector<HistogramRow> early_histograms_;
  uint64_t lost_ = 0;
};

}  // namespace pilotlight
