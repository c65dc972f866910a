// native/nccl/collectives.cpp
#include "nccl/collectives.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>

#include "nccl/event_mask.h"
#include "nccl/operation_names.h"
#include "provider/host_clock.h"

namespace pilotlight::nccl {
namespace {

constexpr int64_t kNoOffset = INT64_MAX;
constexpr int64_t kSecond = 1000000000;
constexpr int64_t kQuiet = 10 * kSecond;
constexpr int64_t kOffsetPeriod = 2 * kSecond;
constexpr char kLost[] = "nccl/lost";
constexpr char kUnfinished[] = "nccl/unfinished";

const ProviderApi* probe = nullptr;
HostClock host_clock;
Events events;
Context contexts[kMaxContexts];
std::atomic<uint64_t> correlations{0};
std::atomic<uint64_t> contexts_lost{0};

int64_t now_ns() noexcept {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

uint64_t ticks_now() noexcept {
  RingWriter* ring = probe->ring();
  return ring != nullptr ? ticks_of(ring->clock()) : 0;
}

// NCCL reads the word whenever an operation begins.
void update_mask(Context* context) noexcept {
  if (context->mask == nullptr) return;
  int wanted = wanted_mask(*probe, context->version, context->mask);
  if (__atomic_load_n(context->mask, __ATOMIC_RELAXED) != wanted) {
    __atomic_store_n(context->mask, wanted, __ATOMIC_RELAXED);
  }
}

std::atomic<uint64_t> told_losses{0};
uint32_t first_run = 0;  // of the process that loaded NCCL, not of its forked children

// Of a flood not each by itself; all that were, now and then and at the end of a communicator.
void tell_losses(bool is_each) noexcept {
  uint64_t count = events.lost() + contexts_lost.load(std::memory_order_relaxed);
  uint64_t before = told_losses.load(std::memory_order_relaxed);
  if (count <= before + (is_each ? before / 8 : 0)) return;
  if (told_losses.compare_exchange_strong(before, count, std::memory_order_relaxed)) {
    probe->counter(kLost, strlen(kLost), static_cast<double>(count));
  }
}

void at_least(std::atomic<uint64_t>& place, uint64_t value) noexcept {
  uint64_t seen = place.load(std::memory_order_relaxed);
  while (seen < value && !place.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}
void at_most(std::atomic<uint64_t>& place, uint64_t value) noexcept {
  uint64_t seen = place.load(std::memory_order_relaxed);
  while (seen > value && !place.compare_exchange_weak(seen, value, std::memory_order_relaxed)) {
  }
}

bool is_operation(const Event& event) noexcept {
  return event.type == kColl || event.type == kP2p || event.type == kCeColl;
}

// The last of a collective and its children has ended: one record.
void write(Event* event) noexcept {
  RingWriter* ring = probe->ring();
  bool is_ours = event->run == probe->run->load(std::memory_order_relaxed);
  if (ring == nullptr || !is_ours || !probe->collecting->load(std::memory_order_relaxed)) return;
  Collective record = {};
  uint64_t first = event->first_ticks.load(std::memory_order_relaxed);
  uint64_t last = event->last_ticks.load(std::memory_order_relaxed);
  bool has_kernel = first != UINT64_MAX && last >= first;
  uint64_t start = has_kernel ? first : event->start_ticks;
  uint64_t end = has_kernel ? last : event->stop_ticks;
  uint64_t wait = event->wait_ticks.load(std::memory_order_relaxed);
  record.header.flags = static_cast<uint8_t>((has_kernel ? 0 : 1) | (wait != 0 ? 2 : 0));
  record.duration_ticks = end > start ? end - start : 0;
  record.wait_ticks = wait < record.duration_ticks ? wait : record.duration_ticks;
  record.bytes = event->bytes;
  record.sequence = event->sequence;
  record.group = event->group;
  record.dtype = event->dtype;
  record.rank = event->rank;
  record.world_size = event->ranks;
  record.correlation = event->correlation.load(std::memory_order_relaxed);
  ring->write_at(RecordType::kCollective, event->name, record, start);
}

// One of the collective's parts has ended; the last one writes.
void leave(Event* event) noexcept {
  if (event->open.fetch_sub(1, std::memory_order_acq_rel) == 1) {
    write(event);
    events.give_back(event);
  }
}

// The collective that a kernel channel or a proxy operation belongs to, held open by it.
Event* enter_parent(Event* child, void* handle) noexcept {
  Event* parent = events.find(handle);
  if (parent == nullptr) return nullptr;
  if (!is_operation(*parent)) return nullptr;
  int32_t to_come = child->type == kKernelCh ? parent->to_come.load(std::memory_order_relaxed) : 0;
  while (to_come > 0 && !parent->to_come.compare_exchange_weak(to_come, to_come - 1)) {
  }
  if (to_come <= 0) {
    int32_t open = parent->open.load(std::memory_order_acquire);
    while (open > 0 &&
           !parent->open.compare_exchange_weak(open, open + 1, std::memory_order_acq_rel)) {
    }
    if (open <= 0) return nullptr;
  }
  child->parent.store(parent, std::memory_order_release);
  return parent;
}

// Collectives whose kernel does not show itself, and calls of which NCCL does not tell what they
// enqueue: written as they were on the host. `context` nullptr: of all, those that wait for as long
// as that.
void give_up(const Context* context, int64_t waiting_ns) noexcept {
  int64_t now = now_ns();
  events.each([&](Event* event) {
    if (event->phase.load(std::memory_order_acquire) != static_cast<uint32_t>(Phase::kStopped)) {
      return;
    }
    if (context != nullptr && event->context != context) return;
    // What a call enqueues comes with the end of its group.
    bool is_call = event->type == kCollApi;
    if (now - event->start_ns < (is_call ? std::min(waiting_ns, kSecond) : waiting_ns)) return;
    int32_t missing = event->to_come.exchange(0);
    if (missing <= 0) return;
    if (event->open.fetch_sub(missing, std::memory_order_acq_rel) == missing) {
      write(event);
      events.give_back(event);
    }
  });
}

// Those that are still under way when their communicator ends, or with nullptr the process.
void tell_unfinished(const Context* context) noexcept {
  static std::atomic<uint64_t> unfinished{0};
  uint64_t count = 0;
  uint32_t run = probe->run->load(std::memory_order_relaxed);
  events.each([&](Event* event) {
    if (event->phase.load(std::memory_order_acquire) == static_cast<uint32_t>(Phase::kFree)) return;
    // Of proxies the context may be another process's.
    if (!is_operation(*event) || event->run != run) return;
    bool is_meant = context == nullptr ? event->context->is_used.load() : event->context == context;
    if (!is_meant) return;
    count++;
    // Counted once, and not written if it ends all the same.
    __atomic_store_n(&event->run, 0, __ATOMIC_RELAXED);
  });
  if (count == 0) return;
  count += unfinished.fetch_add(count, std::memory_order_relaxed);
  probe->counter(kUnfinished, strlen(kUnfinished), static_cast<double>(count));
}

// Programs seldom end their communicators.
void tell_end() noexcept {
  if (RingWriter* ring = probe->ring(); ring != nullptr) ring->use_reserve();
  // What was last said may have found the ring full; but a forked child has its parent's counts.
  if (probe->run->load(std::memory_order_relaxed) == first_run) told_losses = 0;
  tell_losses(false);
  give_up(nullptr, 0);
  tell_unfinished(nullptr);
}

void give_up_now_and_then() noexcept {
  static std::atomic<int64_t> due_ns{0};
  int64_t now = now_ns(), due = due_ns.load(std::memory_order_relaxed);
  if (now < due || !due_ns.compare_exchange_strong(due, now + kSecond)) return;
  tell_losses(false);
  give_up(nullptr, kQuiet);
}

// When the GPU's clock showed that time, in ticks: the smallest difference lately seen between the
// two clocks is closest to the true one.
uint64_t ticks_of_gpu(Context* context, uint64_t gpu_ns, uint64_t seen_ticks) noexcept {
  int64_t now = now_ns(), period = now / kOffsetPeriod;
  int64_t before = context->gpu_offset_period.exchange(period, std::memory_order_relaxed);
  auto& offsets = context->gpu_offset_ns;
  if (period != before) offsets[period & 1].store(kNoOffset, std::memory_order_relaxed);
  if (period - before > 1) offsets[(period + 1) & 1].store(kNoOffset, std::memory_order_relaxed);
  int64_t difference = now - static_cast<int64_t>(gpu_ns);
  int64_t best = offsets[period & 1].load(std::memory_order_relaxed);
  while (difference < best &&
         !offsets[period & 1].compare_exchange_weak(best, difference, std::memory_order_relaxed)) {
  }
  best = std::min({best, difference, offsets[(period + 1) & 1].load(std::memory_order_relaxed)});
  uint64_t ticks = host_clock.ticks_at(static_cast<int64_t>(gpu_ns) + best);
  return ticks != 0 ? ticks : seen_ticks;
}

void see_kernel(Event* channel, uint64_t gpu_ns, bool is_end) noexcept {
  Event* parent = channel->parent.load(std::memory_order_acquire);
  if (parent == nullptr) return;
  uint64_t ticks = ticks_now();
  if (gpu_ns != 0) ticks = ticks_of_gpu(channel->context, gpu_ns, ticks);
  if (is_end) {
    at_least(parent->last_ticks, ticks);
  } else {
    at_most(parent->first_ticks, ticks);
  }
}

void describe(Event* event, Context* context, const Described& described) noexcept {
  const Named& names = names_of(*probe, described);
  event->name = names.name;
  event->dtype = names.dtype;
  event->run = probe->run->load(std::memory_order_relaxed);
  bool is_named = described.comm_hash != 0 || described.comm_name != nullptr;
  if (is_named) {
    event->group = group_id(*probe, described.comm_name, described.comm_hash);
  } else {
    if (context->group_run != event->run || context->group == 0) {
      context->group = group_id(*probe, context->name, context->hash);
      context->group_run = event->run;
    }
    event->group = context->group;
  }
  event->bytes = static_cast<int64_t>(described.count * datatype_bytes(described.datatype));
  event->sequence = described.sequence;
  bool has_peer = described.peer >= 0 && described.peer < static_cast<int>(kNamedPeers);
  if (described.type == kP2p && has_peer) {
    bool is_receive = described.func != nullptr && strncmp(described.func, "Recv", 4) == 0;
    auto* counts = is_receive ? context->received : context->sent;
    event->sequence = counts[described.peer].fetch_add(1, std::memory_order_relaxed);
  }
  event->rank = static_cast<uint32_t>(context->ranks > 0 ? context->rank : described.rank);
  event->ranks = static_cast<uint32_t>(context->ranks);
}

void write_launch(const Event* event) noexcept {
  RingWriter* ring = probe->ring();
  bool is_ours = event->run == probe->run->load(std::memory_order_relaxed);
  if (ring == nullptr || !is_ours || !probe->collecting->load(std::memory_order_relaxed)) return;
  Launch record = {};
  record.duration_ticks = event->stop_ticks - event->start_ticks;
  record.correlation = event->correlation.load(std::memory_order_relaxed);
  record.stack = event->stack;
  ring->write_at(RecordType::kLaunch, event->call_name, record, event->start_ticks);
}

void forget_call(Event* call) noexcept {
  if (call->open.fetch_sub(1, std::memory_order_acq_rel) == 1) events.give_back(call);
}

void start_operation(Event* event, Context* context, const Described& described) noexcept {
  describe(event, context, described);
  event->start_ns = now_ns();
  int mask = context->mask != nullptr ? __atomic_load_n(context->mask, __ATOMIC_RELAXED) : 0;
  if ((mask & kKernelCh) != 0 && described.channels > 0 && described.type != kCeColl) {
    event->to_come.store(described.channels, std::memory_order_relaxed);
    event->open.store(1 + described.channels, std::memory_order_release);
  }
  // The call has mostly returned by now.
  Event* call = events.remembered(described.parent);
  uint64_t correlation = 0;
  if (call != nullptr && (call->type == kCollApi || call->type == kP2pApi)) {
    correlation = call->correlation.load(std::memory_order_relaxed);
    // NCCL gathers and broadcasts bytes, of whatever type the program's are.
    if (call->dtype != 0) event->dtype = call->dtype;
    if (call->to_come.exchange(0) > 0) forget_call(call);
  }
  if (correlation == 0) correlation = correlations.fetch_add(1, std::memory_order_relaxed) + 1;
  event->correlation.store(correlation, std::memory_order_relaxed);
}

void start_call(Event* event, Context* context, const Described& described) noexcept {
  describe(event, context, described);
  event->start_ns = now_ns();
  char text[64];
  const char* name = described.func != nullptr ? described.func : "call";
  int bytes = snprintf(text, sizeof(text), "nccl%.48s", name);
  event->call_name = probe->string(text, static_cast<size_t>(bytes));
  uint64_t correlation = correlations.fetch_add(1, std::memory_order_relaxed) + 1;
  event->correlation.store(correlation, std::memory_order_relaxed);
  event->stack = probe->stack();
  // NCCL 2.29 and 2.30 do not tell of what a broadcast enqueues (NVIDIA/nccl#2278).
  if (described.is_captured || strcmp(name, "Broadcast") != 0) return;
  event->sequence = context->broadcasts.fetch_add(1, std::memory_order_relaxed);
  event->to_come.store(1, std::memory_order_relaxed);
  event->open.store(2, std::memory_order_release);
}

bool starts_child(Event* event, const Described& described) noexcept {
  switch (described.type) {
    case kKernelCh:
      count_kernel_event(*probe);
      if (enter_parent(event, described.parent) == nullptr) return false;
      see_kernel(event, described.gpu_ns, false);
      return true;
    case kProxyOp:
      // Another process may have asked for it (PXN): its pointers mean nothing here.
      if (described.pid != getpid()) return false;
      return enter_parent(event, described.parent) != nullptr;
    case kProxyStep: {
      Event* operation = events.find(described.parent);
      if (operation == nullptr || operation->type != kProxyOp) return false;
      event->parent_handle = reinterpret_cast<uint64_t>(described.parent);
      return true;
    }
    default:
      return false;
  }
}

void end_wait(Event* step) noexcept {
  if (step->waits_since == 0) return;
  Event* operation = events.find(reinterpret_cast<void*>(step->parent_handle));
  uint64_t now = ticks_now();
  if (operation != nullptr && now > step->waits_since) {
    operation->waited_ticks.fetch_add(now - step->waits_since, std::memory_order_relaxed);
  }
  step->waits_since = 0;
}

}  // namespace

Context* open_context(int version, int* mask, const char* name, uint64_t hash, int ranks,
                      int rank) noexcept {
  probe = attach();
  if (probe == nullptr) return nullptr;
  static const bool prepared = [] {
    first_run = probe->run->load(std::memory_order_relaxed);
    // While there is room for names.
    for (const char* told : {kLost, kUnfinished}) probe->string(told, strlen(told));
    return atexit(tell_end) == 0;
  }();
  (void)prepared;
  for (Context& context : contexts) {
    bool is_used = false;
    if (!context.is_used.compare_exchange_strong(is_used, true)) continue;
    context.version = version;
    context.mask = mask;
    context.hash = hash;
    context.ranks = ranks;
    context.rank = rank;
    snprintf(context.name, sizeof(context.name), "%s", name != nullptr ? name : "");
    for (auto& offset : context.gpu_offset_ns) offset.store(kNoOffset, std::memory_order_relaxed);
    context.broadcasts.store(0, std::memory_order_relaxed);
    context.group = context.group_run = 0;
    for (uint32_t peer = 0; peer < kNamedPeers; peer++) {
      context.sent[peer].store(0, std::memory_order_relaxed);
      context.received[peer].store(0, std::memory_order_relaxed);
    }
    if (RingWriter* ring = probe->ring(); ring != nullptr) host_clock.open(ring->clock());
    update_mask(&context);
    return &context;
  }
  contexts_lost.fetch_add(1, std::memory_order_relaxed);
  tell_losses(true);
  return nullptr;
}

void close_context(void* context) noexcept {
  if (context == nullptr || probe == nullptr) return;
  auto* closed = static_cast<Context*>(context);
  tell_losses(false);  // before what is given up takes the room in the ring
  give_up(closed, 0);
  tell_unfinished(closed);
  closed->mask = nullptr;
  closed->is_used.store(false);
}

void* start(void* given, const Described& described) noexcept {
  auto* context = static_cast<Context*>(given);
  if (probe == nullptr || context == nullptr) return nullptr;
  constexpr uint64_t kKnown = kBasic | kApi | kCeColl | kKernelCh | kProxy;
  if ((described.type & kKnown) == 0) return nullptr;
  if (described.is_captured) note_capture(*probe);
  if ((described.type & (kBasic | kApi)) != 0) {
    update_mask(context);
    give_up_now_and_then();
  }
  if (!probe->collecting->load(std::memory_order_relaxed)) return nullptr;
  Event* event = events.take(described.type, context);
  if (event == nullptr) {
    tell_losses(true);
    return nullptr;
  }
  event->start_ticks = ticks_now();
  switch (described.type) {
    case kColl:
    case kP2p:
    case kCeColl:
      start_operation(event, context, described);
      return events.handle_of(event);
    case kCollApi:
    case kP2pApi:
      start_call(event, context, described);
      return events.handle_of(event);
    default:
      if (starts_child(event, described)) return events.handle_of(event);
      events.give_back(event);
      return nullptr;
  }
}

void stop(void* handle) noexcept {
  Event* event = probe != nullptr ? events.find(handle) : nullptr;
  if (event == nullptr) return;
  uint32_t phase = static_cast<uint32_t>(Phase::kOpen);
  // NCCL may stop the same call twice.
  if (!event->phase.compare_exchange_strong(phase, static_cast<uint32_t>(Phase::kStopped))) return;
  event->stop_ticks = ticks_now();
  Event* parent = event->parent.load(std::memory_order_acquire);
  switch (event->type) {
    case kCollApi:
    case kP2pApi:
      write_launch(event);
      return forget_call(event);
    case kKernelCh:
      see_kernel(event, 0, true);
      break;
    case kProxyOp:
      if (parent != nullptr) {
        at_least(parent->wait_ticks, event->waited_ticks.load(std::memory_order_relaxed));
      }
      break;
    case kProxyStep:
      end_wait(event);
      return events.give_back(event);
    default:
      // Enqueued: its kernel and its proxies may come later, and hold it open.
      return leave(event);
  }
  events.give_back(event);
  if (parent != nullptr) leave(parent);
}

void state(void* handle, int state, const StateArguments* arguments, bool has_gpu_time) noexcept {
  Event* event = probe != nullptr ? events.find(handle) : nullptr;
  if (event == nullptr) return;
  if (event->type == kKernelCh && state == kKernelChStop) {
    uint64_t gpu_ns = has_gpu_time && arguments != nullptr ? arguments->kernel_ch.gpu_ns : 0;
    see_kernel(event, gpu_ns, true);
    // The time of the stop itself would be later.
    Event* parent = event->parent.exchange(nullptr, std::memory_order_acq_rel);
    if (parent != nullptr) leave(parent);
  } else if (event->type == kProxyStep) {
    end_wait(event);
    if (state == kStepRecvWait || state == kStepSendPeerWait) event->waits_since = ticks_now();
  }
}

}  // namespace pilotlight::nccl
