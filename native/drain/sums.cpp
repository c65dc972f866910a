// native/drain/sums.cpp
#include "drain/sums.h"

#include <algorithm>
#include <iterator>

namespace pilotlight {

void Window::grow() {
  std::vector<Sum> smaller(sums_.size() * 2);
  smaller.swap(sums_);
  mask_ = sums_.size() - 1;
  shift_--;
  touched_.clear();
  for (const Sum& sum : smaller) {
    if (sum.key == 0) continue;
    Sum* place = place_of(sum.key);
    *place = sum;
    if (sum.count != 0) touched_.push_back(static_cast<uint32_t>(place - sums_.data()));
  }
}

Window::Sum* Window::new_sum(uint64_t key, Sum* place) {
  if (used_ >= kMaxKeys) {
    uint64_t rest = key & ~uint64_t{0xffffffff};
    place = place_of(rest);
    if (place->key == rest) return place;
    key = rest;
  }
  if ((used_ + 1) * 2 > sums_.size()) {
    grow();
    place = place_of(key);
  }
  used_++;
  *place = {key, 0, 0, INT64_MAX, 0, kNoHistogram};
  // Of samples the weights say nothing.
  bool is_sample = key >> 40 == static_cast<uint8_t>(SumKind::kSample);
  if (!is_sample && histograms_.size() < kMaxHistograms) {
    place->histogram = static_cast<uint32_t>(histograms_.size());
    histograms_.emplace_back();
  }
  return place;
}

void Window::take_rows(std::vector<SumRow>* sums, std::vector<HistogramRow>* histograms) {
  for (uint32_t place : touched_) {
    Sum& sum = sums_[place];
    auto id = static_cast<uint32_t>(sum.key);
    auto kind = static_cast<uint8_t>(sum.key >> 40);
    sums->push_back({start_ns_, id, kind, static_cast<uint8_t>(sum.key >> 32), sum.count,
                     sum.total_ns, sum.min_ns, sum.max_ns});
    sum = {sum.key, 0, 0, INT64_MAX, 0, sum.histogram};
    if (sum.histogram == kNoHistogram) continue;
    Histogram& histogram = histograms_[sum.histogram];
    for (uint32_t word = 0; word < histogram.touched.size(); word++) {
      for (uint64_t rest = histogram.touched[word]; rest != 0; rest &= rest - 1) {
        auto bucket =
            static_cast<uint16_t>(64 * word + static_cast<uint32_t>(__builtin_ctzll(rest)));
        histograms->push_back({start_ns_, id, kind, bucket, histogram.counts[bucket]});
        histogram.counts[bucket] = 0;
      }
      histogram.touched[word] = 0;
    }
  }
  touched_.clear();
}

Window* Sums::find(int64_t start_ns) {
  auto at = std::lower_bound(windows_.begin(), windows_.end(), start_ns,
                             [](const Window& w, int64_t start) { return w.start_ns() < start; });
  if (at != windows_.end() && at->start_ns() == start_ns) return &*at;
  if (windows_.size() == kOpen) {
    // Times that jump about (a hostile producer): close the oldest early. Rows of one key add up,
    // so opening that window again later is not wrong, only longer.
    auto index = at - windows_.begin();
    if (early_sums_.size() < kMaxEarly) {
      windows_.front().take_rows(&early_sums_, &early_histograms_);
    } else {
      lost_++;
    }
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
    windows_[closed++].take_rows(sums, histograms);
  }
  // The newest goes on, as a rule.
  if (closed != 0 && closed == windows_.size() && windows_.back().is_small()) closed--;
  windows_.erase(windows_.begin(), windows_.begin() + static_cast<std::ptrdiff_t>(closed));
}

}  // namespace pilotlight
