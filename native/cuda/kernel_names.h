// native/cuda/kernel_names.h: ids of kernel names, by the address at which CUPTI keeps them.
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/count.h"
#include "provider/provider_api.h"

namespace pilotlight::cupti {

// Used by our thread only, but for new_epoch(). Names are C++ symbols; they are shown as their
// authors wrote them. A program may make up names without end: after kMaxNames or kMaxBytes all
// others share one name and are counted.
class KernelNames {
 public:
  static constexpr uint32_t kMaxNames = 16384;
  static constexpr uint64_t kMaxBytes = 3 << 20;

  bool open(const ProviderApi* api) noexcept;
  // The id of a NUL-terminated name.
  uint32_t id(const char* name) noexcept;
  // A module was loaded or unloaded: addresses may mean other names now.
  void new_epoch() noexcept { epoch_.fetch_add(1, std::memory_order_relaxed); }
  uint64_t shared() const noexcept { return shared_; }

 private:
  static constexpr uint32_t kEntries = 1 << 14;
  struct Entry {
    const char* name;
    uint32_t epoch;
    uint32_t id;
  };
  uint32_t define(const char* name) noexcept;
  bool is_new(const char* name, size_t bytes) noexcept;

  const ProviderApi* api_ = nullptr;
  std::atomic<uint32_t> epoch_{1};
  uint32_t names_ = 0;
  uint64_t bytes_ = 0;
  Count shared_;
  uint32_t other_ = 0;
  Entry* entries_ = nullptr;
  uint64_t* seen_ = nullptr;  // hashes of the names defined
};

}  // namespace pilotlight::cupti
