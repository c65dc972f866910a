// native/cuda/count.h: a count that anybody may read at any moment.
#pragma once

#include <atomic>
#include <cstdint>

namespace pilotlight::cupti {

class Count {
 public:
  // By one writer only.
  void add(uint64_t more) noexcept {
    value_.store(value_.load(std::memory_order_relaxed) + more, std::memory_order_relaxed);
  }
  // Where there are several, all of them.
  void add_shared(uint64_t more) noexcept { value_.fetch_add(more, std::memory_order_relaxed); }
  operator uint64_t() const noexcept { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

}  // namespace pilotlight::cupti
