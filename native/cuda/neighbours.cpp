// native/cuda/neighbours.cpp
#include "cuda/neighbours.h"

#include <link.h>
#include <string.h>

#include <atomic>

#include "cuda/collector.h"
#include "cuda/led_calls.h"

namespace pilotlight::cupti {
namespace {

std::atomic<int> subscribers{0};
std::atomic<uint64_t> kinds{0};  // enabled by others, a bit each
// Those that came beside us.
constexpr uint32_t kMaxSharers = 8;
std::atomic<Subscriber> sharers[kMaxSharers] = {};

// A library by which a tool of NVIDIA's gets into a process, and takes CUPTI's place there.
struct Tool {
  const char* library;
  const char* name;
};
constexpr Tool kTools[] = {{"libToolsInjection64.so", "Nsight Systems"},
                           {"libcuda-injection.so", "Nsight Compute"},
                           {"libsanitizer-collection.so", "Compute Sanitizer"}};
std::atomic<const char*> tool{nullptr};

enum Function : uint32_t {
  kSubscribe,
  kSubscribe2,
  kUnsubscribe,
  kEnable,
  kDisable,
  kRegister,
  kClock,
  kFinalize,
  kFunctions
};
// The functions that callers mean, in the library that we use too.
void* reals[kFunctions] = {};

template <typename F>
F real(Function function) noexcept {
  return reinterpret_cast<F>(reals[function]);
}

void others_left() noexcept {
  if (subscribers.load() <= 0 && kinds.load() == 0 && tool.load() == nullptr) {
    Collector::get().yield(false);
  }
}

Result subscribe(Subscriber* subscriber, Callback callback, void* user) noexcept {
  auto function = real<Result (*)(Subscriber*, Callback, void*)>(kSubscribe);
  if (function == nullptr) return kUnknown;
  Collector::get().yield(true);
  Result result = function(subscriber, callback, user);
  if (result == kSuccess) subscribers++;
  if (result != kSuccess) others_left();
  return result;
}

Result subscribe_beside(Subscriber* subscriber, Callback callback, void* user,
                        SubscriberParams* params) noexcept {
  auto function = real<Result (*)(Subscriber*, Callback, void*, SubscriberParams*)>(kSubscribe2);
  Collector::get().share(true);
  Result result = function(subscriber, callback, user, params);
  if (result == kSuccess) {
    for (auto& sharer : sharers) {
      Subscriber nobody = nullptr;
      if (sharer.compare_exchange_strong(nobody, *subscriber)) return result;
    }
    return result;  // more than we can keep in mind: they count as there to the end
  }
  Collector::get().share(false);
  return result;
}

void sharer_left(Subscriber subscriber) noexcept {
  for (auto& sharer : sharers) {
    Subscriber left = subscriber;
    if (subscriber == nullptr || !sharer.compare_exchange_strong(left, nullptr)) continue;
    return Collector::get().share(false);
  }
}

Result subscribe2(Subscriber* subscriber, Callback callback, void* user,
                  SubscriberParams* params) noexcept {
  auto function = real<Result (*)(Subscriber*, Callback, void*, SubscriberParams*)>(kSubscribe2);
  if (function == nullptr) return kUnknown;
  // Side by side if both want to be; else they have it alone.
  bool shares = Collector::get().library().api() == Api::kV2 && params != nullptr &&
                params->struct_bytes >= sizeof(SubscriberParams) && params->allow_multiple != 0;
  if (shares) return subscribe_beside(subscriber, callback, user, params);
  Collector::get().yield(true);
  Result result = function(subscriber, callback, user, params);
  if (result == kSuccess) subscribers++;
  if (result != kSuccess) others_left();
  return result;
}

Result unsubscribe(Subscriber subscriber) noexcept {
  auto function = real<Result (*)(Subscriber)>(kUnsubscribe);
  if (function == nullptr) return kUnknown;
  Result result = function(subscriber);
  if (result == kSuccess && subscribers.load() > 0) subscribers--;
  if (result == kSuccess) sharer_left(subscriber);
  others_left();
  return result;
}

Result enable(uint32_t kind) noexcept {
  auto function = real<Result (*)(uint32_t)>(kEnable);
  if (function == nullptr) return kUnknown;
  Collector::get().yield(true);
  Result result = function(kind);
  if (result == kSuccess && kind < 64) kinds |= uint64_t{1} << kind;
  if (result != kSuccess) others_left();
  return result;
}

Result disable(uint32_t kind) noexcept {
  auto function = real<Result (*)(uint32_t)>(kDisable);
  if (function == nullptr) return kUnknown;
  Result result = function(kind);
  if (kind < 64) kinds &= ~(uint64_t{1} << kind);
  others_left();
  return result;
}

Result register_buffers(RequestBuffer request, CompleteBuffer complete) noexcept {
  auto function = real<Result (*)(RequestBuffer, CompleteBuffer)>(kRegister);
  if (function == nullptr) return kUnknown;
  // Ours would be replaced; whoever registers enables something next.
  Collector::get().yield(true);
  return function(request, complete);
}

// Not while we have records on, or they would be told by two clocks; what comes next is enabled.
Result register_clock(uint64_t (*clock)()) noexcept {
  auto function = real<Result (*)(uint64_t (*)())>(kClock);
  if (function == nullptr) return kUnknown;
  Collector::get().yield(true);
  return function(clock);
}

Result finalize() noexcept {
  auto function = real<Result (*)()>(kFinalize);
  if (function == nullptr) return kUnknown;
  Result result = function();
  subscribers = 0;
  kinds = 0;
  others_left();
  return result;
}

template <typename F>
void* address(F* function) noexcept {
  return reinterpret_cast<void*>(function);
}

struct Hook {
  Function which;
  const char* name;
  void* function;
};
const Hook kHooks[] = {
    {kSubscribe, "cuptiSubscribe", address(subscribe)},
    {kSubscribe2, "cuptiSubscribe_v2", address(subscribe2)},
    {kUnsubscribe, "cuptiUnsubscribe", address(unsubscribe)},
    {kEnable, "cuptiActivityEnable", address(enable)},
    {kDisable, "cuptiActivityDisable", address(disable)},
    {kRegister, "cuptiActivityRegisterCallbacks", address(register_buffers)},
    {kClock, "cuptiActivityRegisterTimestampCallback", address(register_clock)},
    {kFinalize, "cuptiFinalize", address(finalize)},
};

// Those of them that this libcupti has.
LedCall led[kFunctions] = {};
size_t leds = 0;

// Once: the functions themselves, before their places are taken.
bool know_functions() noexcept {
  Library& library = Collector::get().library();
  if (!library.is_open()) return false;
  if (reals[kSubscribe] != nullptr) return true;
  for (const Hook& hook : kHooks) reals[hook.which] = library.symbol(hook.name);
  // What is changed in it must stay what we know.
  library.keep();
  for (const Hook& hook : kHooks) {
    if (reals[hook.which] == nullptr) continue;
    led[leds] = {hook.name, reals[hook.which], hook.function};
    lead_lookups(led[leds++]);
  }
  return true;
}

struct Loaded {
  unsigned long long changes;
  const char* tool;
};

int look_for_tools(dl_phdr_info* info, size_t, void* data) noexcept {
  auto* loaded = static_cast<Loaded*>(data);
  loaded->changes = info->dlpi_adds + info->dlpi_subs;
  const char* name = strrchr(info->dlpi_name, '/');
  name = name != nullptr ? name + 1 : info->dlpi_name;
  for (const Tool& one : kTools) {
    if (strcmp(name, one.library) == 0) loaded->tool = one.name;
  }
  return 0;
}

}  // namespace

const char* tool_in_process() noexcept { return tool.load(std::memory_order_relaxed); }

void watch_neighbours() noexcept {
  static std::atomic<unsigned long long> seen{0}, hooked{0};
  Loaded loaded = {};
  dl_iterate_phdr(look_for_tools, &loaded);
  if (seen.exchange(loaded.changes) != loaded.changes) {
    tool.store(loaded.tool, std::memory_order_relaxed);
    if (loaded.tool != nullptr) {
      Collector::get().yield(true);
    } else {
      others_left();
    }
  }
  if (!know_functions() || hooked.exchange(loaded.changes) == loaded.changes) return;
  lead_imports({led, leds});
}

}  // namespace pilotlight::cupti
