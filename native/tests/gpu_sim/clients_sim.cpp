// native/tests/gpu_sim/clients_sim.cpp: who has subscribed to the simulated CUPTI, and what for.
#include <unistd.h>

#include "cupti_client.h"

namespace abi = pilotlight::cupti;

namespace gpu_sim {

// Never destroyed: programs launch work while they end.
Client (&clients)[kClients] = *reinterpret_cast<Client (*)[kClients]>(new Client[kClients]);
std::atomic<int> kinds_on[kKinds];
std::atomic<uint32_t> graph_turns{0};
std::atomic<bool> whole_graphs{false};
std::atomic<bool> hardware_events{false};
std::atomic<bool> has_context{false};

namespace {

pid_t owner = 0;
bool many_allowed = false;
thread_local Inside inside_now = kNowhere;

}  // namespace

Inside inside() { return inside_now; }
Calling::Calling(Inside where) : before_(inside_now) { inside_now = where; }
Calling::~Calling() { inside_now = before_; }

void check_process() {
  if (owner == 0) owner = getpid();
  if (owner != getpid()) illegal("a CUPTI call in a forked child");
}

void check_caller(const char* function) {
  check_process();
  if (inside() == kBufferCallback) illegal(function);
}

bool kernel_records_on() { return kinds_on[abi::kConcurrentKernel].load() > 0; }

bool any_kind_on() {
  for (auto& kind : kinds_on) {
    if (kind.load() != 0) return true;
  }
  return false;
}

bool is_shared() { return many_allowed; }

abi::Result enable_hardware_events() {
  static const int error = int(number_in("PILOTLIGHT_SIM_HES_ERROR", 0));
  if (error != 0) return error;
  if (has_context) return abi::kNotSupported;
  if (any_kind_on()) illegal("hardware events after an activity kind was enabled");
  hardware_events = true;
  return abi::kSuccess;
}

Client* client_of(void* subscriber) {
  auto* client = static_cast<Client*>(subscriber);
  if (client < clients || client >= clients + kClients || !client->subscribed) {
    illegal("a subscriber that is none");
  }
  return client;
}

abi::Result add_client(void** subscriber, abi::Callback callback, void* user, bool v2, bool many) {
  check_process();
  if (subscriber == nullptr || callback == nullptr) return abi::kInvalidParameter;
  if (has_trap("taken")) return abi::kMultipleSubscribers;
  if (has_trap("privileges")) return abi::kInsufficientPrivileges;
  if (has_trap("no_driver")) return abi::kNotInitialized;
  if (has_trap("old_driver") && kVersion >= 130000) return abi::kUnknown;
  static const int error = int(number_in("PILOTLIGHT_SIM_SUBSCRIBE_ERROR", 0));
  if (error != 0) return static_cast<abi::Result>(error);
  static std::mutex mutex;
  std::lock_guard<std::mutex> lock(mutex);
  uint32_t there = 0;
  for (Client& client : clients) there += client.subscribed ? 1 : 0;
  if (there > 0 && !(many && v2 && many_allowed)) return abi::kMultipleSubscribers;
  // The first one decides.
  if (there == 0) many_allowed = many;
  for (Client& client : clients) {
    if (client.subscribed) continue;
    client.callback = callback;
    client.user = user;
    client.v2 = v2;
    client.subscribed = true;
    *subscriber = &client;
    attach();
    return abi::kSuccess;
  }
  return abi::kMultipleSubscribers;
}

void set_kind(Client* client, uint32_t kind, bool on) {
  if (client->kinds[kind].exchange(on ? 1 : 0) == (on ? 1 : 0)) return;
  kinds_on[kind] += on ? 1 : -1;
  if (kind == abi::kGraphTrace) graph_turns++;
}

abi::Result enable_kind(Client* client, uint32_t kind, bool on) {
  check_process();
  if (kind >= kKinds || (size_of(kind) == 0 && kind != abi::kOverhead)) return abi::kInvalidKind;
  if (!client->is_registered()) return abi::kUnknown;
  if (inside() == kBufferCallback) illegal("an activity switched inside a buffer callback");
  if (on && kVersion < 27 && kind == abi::kConcurrentKernel && gpu_sim::pc_sampling_on()) {
    return abi::kNotCompatible;
  }
  if (on && has_trap("no_kernels") && kind == abi::kConcurrentKernel) return abi::kNotCompatible;
  if (!on && kVersion == 130000 && kind == abi::kConcurrentKernel && client->kinds[kind] != 0) {
    illegal("13.0 GA deadlocks when kernel records are disabled");
  }
  static const double switch_ns = number_in("PILOTLIGHT_SIM_SWITCH_NS", 0);
  if (switch_ns > 0 && kind == abi::kConcurrentKernel) {
    timespec pause = {0, static_cast<long>(switch_ns)};
    nanosleep(&pause, nullptr);
  }
  set_kind(client, kind, on);
  return abi::kSuccess;
}

}  // namespace gpu_sim
