// native/cuda/graph_watch.h: whether CUPTI shows graphs in the way that it was asked for.
//
// As a whole or by their nodes: CUPTI takes either wish at any time, but may keep to what it had
// when a graph was made, and then shows nothing of it. No call fails; that launches are heard and
// no record comes is all that there is to notice.
#pragma once

#include <cstdint>

namespace pilotlight::cupti {

class GraphWatch {
 public:
  // How long nothing may come before it is believed.
  explicit GraphWatch(int64_t patience_ns) noexcept : patience_ns_(patience_ns) {}

  // At the end of a window in which graphs were to be shown this way: how many launches of graphs
  // were heard in it, and how many such records have come since the start of the process.
  void observe(uint64_t launches, uint64_t records, int64_t begin_ns, int64_t end_ns) noexcept {
    if (records != records_ || launches_ == 0) {
      records_ = records;
      launches_ = 0;
      since_ns_ = begin_ns;
    }
    launches_ += launches;
    is_silent_ = launches_ >= kLaunches && end_ns - since_ns_ >= patience_ns_;
  }
  bool is_silent() const noexcept { return is_silent_; }
  // After a while in which nothing was asked for.
  void restart() noexcept { launches_ = 0; }

 private:
  static constexpr uint64_t kLaunches = 16;
  int64_t patience_ns_;
  uint64_t records_ = 0;
  uint64_t launches_ = 0;  // since a record came
  int64_t since_ns_ = 0;
  bool is_silent_ = false;
};

}  // namespace pilotlight::cupti
