// native/nccl/event_mask.cpp
#include "nccl/event_mask.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

namespace pilotlight::nccl {
namespace {

constexpr int64_t kSecond = 1000000000;
constexpr int64_t kQuiet = 10 * kSecond;
constexpr uint32_t kMostKernelEvents = 20000;  // a second
// NCCL 2.31 made kernel events dear for messages of a few megabytes and less.
constexpr int kFirstDear = 23100;
// With kernel events NCCL puts a call of the host before each collective that is captured into a
// CUDA graph, and there it stays. Without them it loses count of what graphs start, and then has
// the times of other collectives for those that are not captured. So there are none any more from
// the first capture on. Before v5 nobody tells us what is captured; before v3 there are none at
// all.
constexpr int kFirstWithKernels = 3, kFirstWithCaptures = 5;
// For kernel events NCCL takes 40 MB of it for each communicator of a rank, and crashes up to 2.31
// where there is no room.
constexpr char kSharedMemory[] = "/dev/shm";
constexpr uint64_t kLeastSharedBytes = uint64_t{4} << 30;

uint64_t shared_bytes_free() noexcept {
  struct statvfs found = {};
  if (statvfs(kSharedMemory, &found) != 0) return 0;
  return uint64_t{found.f_bavail} * found.f_frsize;
}

// Of the NCCL whose word that is. Frameworks load it for themselves: its functions are not found by
// name alone.
int nccl_version(const int* word) noexcept {
  using GetVersion = int(int*);
  Dl_info place = {};
  void* library = nullptr;
  if (dladdr(word, &place) != 0) library = dlopen(place.dli_fname, RTLD_NOW | RTLD_NOLOAD);
  void* scope = library != nullptr ? library : RTLD_DEFAULT;
  auto* get = reinterpret_cast<GetVersion*>(dlsym(scope, "ncclGetVersion"));
  int version = 0;
  bool is_known = get != nullptr && get(&version) == kSuccess;
  if (library != nullptr) dlclose(library);
  return is_known ? version : 0;
}

void tell_missing(const ProviderApi& probe, const char* why) noexcept {
  char text[96];
  int bytes = snprintf(text, sizeof(text), "nccl/missing: kernel times (%s)", why);
  probe.mark(text, static_cast<size_t>(bytes), 0);
}

// Whether kernel events do no harm here. Told once, if not.
bool kernels_fit(const ProviderApi& probe, int interface, const int* word) noexcept {
  static const bool fit = [&probe, interface, word] {
    int version = nccl_version(word);
    if (interface < kFirstWithCaptures || version == 0 || version >= kFirstDear) {
      char why[32];
      snprintf(why, sizeof(why), "NCCL %d", version);
      tell_missing(probe, why);
      return false;
    }
    bool has_room = shared_bytes_free() >= kLeastSharedBytes;
    if (!has_room) tell_missing(probe, "/dev/shm has less than 4 GB free");
    return has_room;
  }();
  return fit;
}

// NCCL's proxy thread polls as long as a collective with kernel events is under way: on demand, or
// where the user wants it.
bool wants_kernels(const ProviderApi& probe, int interface, const int* word,
                   bool is_asked) noexcept {
  static const char* const chosen = getenv("PILOTLIGHT_NCCL_KERNELS");
  if (chosen != nullptr && chosen[0] != 0) return chosen[0] == '1';
  return is_asked && kernels_fit(probe, interface, word);
}

// Too many kernel events in a second: none for the next ten.
class Rate {
 public:
  void count(const ProviderApi& probe) noexcept {
    int64_t now = clock_ns(CLOCK_MONOTONIC);
    int64_t since = since_ns_.load(std::memory_order_relaxed);
    if (now - since > kSecond) {
      since_ns_.store(now, std::memory_order_relaxed);
      seen_.store(0, std::memory_order_relaxed);
    }
    if (seen_.fetch_add(1, std::memory_order_relaxed) == kMostKernelEvents) {
      quiet_until_ns_.store(now + kQuiet, std::memory_order_relaxed);
      probe.mark("nccl/kernels off: too many", 26, kMostKernelEvents);
    }
  }
  bool is_calm() const noexcept {
    int64_t until = quiet_until_ns_.load(std::memory_order_relaxed);
    return until == 0 || clock_ns(CLOCK_MONOTONIC) > until;
  }

 private:
  std::atomic<int64_t> since_ns_{0}, quiet_until_ns_{0};
  std::atomic<uint32_t> seen_{0};
};
Rate kernel_rate;

std::atomic<bool> has_captures{false};

}  // namespace

int wanted_mask(const ProviderApi& probe, int version, const int* word) noexcept {
  uint32_t tier = probe.tier->load(std::memory_order_relaxed);
  if (tier == kTierOff) return 0;
  uint64_t mask = kBasic;
  if (version >= 5) mask |= kApi;
  if (version >= 6) mask |= kCeColl;
  bool is_asked = tier == kTierNodes || tier == kTierAll;
  if (is_asked) mask |= kProxy;
  bool may_have = version >= kFirstWithKernels && !has_captures.load(std::memory_order_relaxed);
  if (may_have && kernel_rate.is_calm() && wants_kernels(probe, version, word, is_asked)) {
    mask |= kKernelCh;
  }
  return static_cast<int>(mask);
}

void count_kernel_event(const ProviderApi& probe) noexcept { kernel_rate.count(probe); }

void note_capture(const ProviderApi& probe) noexcept {
  if (!has_captures.exchange(true)) tell_missing(probe, "collectives in CUDA graphs");
}

}  // namespace pilotlight::nccl
