// native/drain/sums.cpp
#include "drain/sums.h"

#include <algorithm>
#include <iterator>

namespace pilotlight {
namespace {

uint64_t mix(uint64_t key) noexcept {
  key *= 0x9e3779b97f4a7c15ull;
  return key ^ (key >> 29);
}

// kind, state and id in one word that is never 0, since no kind is.
uint64_t key_of(SumKind kind, uint8_t state, uint32_t id) noexcept {
  return uint64_t{static_cast<uint8_t>(kind)} << 40 | uint64_t{state} << 32 | id;
}

template <typename T>
T* probe(std::vector<T>& table, uint64_t key) noexcept {
  uint64_t mask = table.size() - 1;
  uint64_t at = mix(key) & mask;
  while (table[at].key != 0 && table[at].key != key) at = (at + 1) & mask;
  return &table[at];
}

template <typename T>
void grow(std::vector<T>& table) {
  std::vector<T> larger(table.size() * 2);
  for (const T& entry : table) {
    if (entry.key != 0) *probe(larger, entry.key) = entry;
  }
  table.swap(larger);
}

}  // namespace

Window::Sum* Window::find_sum(uint64_t key) {
  Sum* sum = probe(sums_, key);
  if (sum->key == key) return sum;
  if (sums_used_ >= kMaxKeys) {
    uint64_t rest = key & ~uint64_t{0xffffffff};
    sum = probe(sums_, rest);
    if (sum->key == rest) return sum;
    key = rest;
  }
  if ((sums_used_ + 1) * 2 > sums_.size()) {
    grow(sums_);
    sum = probe(sums_, key);
  }
  sums_used_++;
  *sum = {key, 0, 0, INT64_MAX, 0};
  return sum;
}

Window::Bucket* Window::find_bucket(uint64_t key) {
  Bucket* bucket = probe(buckets_, key);
  if (bucket->key == key) return bucket;
  if (buckets_used_ >= kMaxKeys) return nullptr;
  if ((buckets_used_ + 1) * 2 > buckets_.size()) {
    grow(buckets_);
    bucket = probe(buckets_, key);
  }
  buckets_used_++;
  *bucket = {key, 0};
  return bucket;
}

void Window::add(SumKind kind, uint8_t state, uint32_t id, int64_t ns) {
  Sum* sum = find_sum(key_of(kind, state, id));
  sum->count++;
  // Saturates: a hostile producer may state any duration.
  if (__builtin_add_overflow(sum->total_ns, ns, &sum->total_ns)) sum->total_ns = INT64_MAX;
  sum->min_ns = std::min(sum->min_ns, ns);
  sum->max_ns = std::max(sum->max_ns, ns);
  if (kind == SumKind::kSample) return;
  uint64_t bucket = histogram_bucket(static_cast<uint64_t>(ns));
  Bucket* place = find_bucket(bucket << 48 | key_of(kind, 0, static_cast<uint32_t>(sum->key)));
  if (place != nullptr) place->count++;
}

void Window::rows(std::vector<SumRow>* sums, std::vector<HistogramRow>* histograms) const {
  for (const Sum& sum : sums_) {
    if (sum.key == 0) continue;
    sums->push_back({start_ns_, static_cast<uint32_t>(sum.key), static_cast<uint8_t>(sum.key >> 40),
                     static_cast<uint8_t>(sum.key >> 32), sum.count, sum.total_ns, sum.min_ns,
                     sum.max_ns});
  }
  for (const Bucket& bucket : buckets_) {
    if (bucket.key == 0) continue;
    histograms->push_back({start_ns_, static_cast<uint32_t>(bucket.key),
                           static_cast<uint8_t>(bucket.key >> 40),
                           static_cast<uint16_t>(bucket.key >> 48), bucket.count});
  }
}

Window* Sums::find(int64_t start_ns) {
  auto at = std::lower_bound(windows_.begin(), windows_.end(), start_ns,
                             [](const Window& w, int64_t start) { return w.start_ns() < start; });
  if (at != windows_.end() && at->start_ns() == start_ns) return &*at;
  if (windows_.size() == kOpen) {
    // Times that jump about (a hostile producer): close the oldest early. Rows of one key add up,
    // so opening that window again later is not wrong, only longer.
    auto index = at - windows_.begin();
    windows_.front().rows(&early_sums_, &early_histograms_);
    windows_.erase(windows_.begin());
    at = windows_.begin() + std::max<std::ptrdiff_t>(index - 1, 0);
  }
  return &*windows_.insert(at, Window(start_ns));
}

void Sums::take(int64_t until_ns, std::vector<SumRow>* sums,
                std::vector<HistogramRow>* histograms) {
  sums->swap(early_sums_);
  histograms->swap(early_histograms_);
  early_sums_.clear();
  early_histograms_.clear();
  size_t closed = 0;
  while (closed < windows_.size() && windows_[closed].start_ns() <= until_ns - kWindowNs) {
    windows_[closed++].rows(sums, histograms);
  }
  windows_.erase(windows_.begin(), windows_.begin() + static_cast<std::ptrdiff_t>(closed));
}

}  // namespace pilotlight
