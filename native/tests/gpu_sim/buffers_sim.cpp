// native/tests/gpu_sim/buffers_sim.cpp: the buffers of the simulated CUPTI's clients: asked for,
// filled, handed over and read.
#include <pthread.h>
#include <unistd.h>

#include <set>

#include "cupti_client.h"

namespace abi = pilotlight::cupti;

namespace gpu_sim {
namespace {

const bool kCrashesWithoutBuffer = kVersion < 28;
std::mutex out_mutex;
// Never destroyed: programs launch work while they end.
auto& out = *new std::set<uint8_t*>;     // buffers with us
auto& handed = *new std::set<uint8_t*>;  // back with the client, to be read
std::atomic<bool> pumping{false};

void* pump_all(void*) {
  pthread_setname_np(pthread_self(), "cupti-sim");
  while (true) {
    timespec pause = {0, 2000000};
    nanosleep(&pause, nullptr);
    for (Client& client : clients) {
      for (Lane& lane : client.lanes) {
        // In small bites: a launching thread must not wait for all of them.
        for (int bite = 0; bite < 1000; bite++) {
          std::lock_guard<std::recursive_mutex> lock(client.mutex);
          if (!client.is_registered()) break;
          size_t before = lane.pending.size();
          pump(&client, &lane, false, 64);
          if (before - lane.pending.size() < 64) break;
        }
      }
    }
  }
}

}  // namespace

bool request_buffer(Client* client, Buffer* buffer) {
  uint8_t* data = nullptr;
  size_t bytes = 0, most = 0;
  {
    Calling calling(kBufferCallback);
    if (client->v2) {
      size_t info = sizeof(size_t);
      client->request2(&data, &bytes, &most, &info);
    } else {
      client->request(&data, &bytes, &most);
    }
  }
  if (data == nullptr || bytes == 0) {
    if (kCrashesWithoutBuffer) illegal("no buffer given: CUPTI before 12.9 crashes");
    return false;
  }
  if (reinterpret_cast<uintptr_t>(data) % 8 != 0) illegal("a buffer that is not aligned to 8");
  if (bytes < 1024) illegal("a buffer of less than 1 KiB");
  std::lock_guard<std::mutex> lock(out_mutex);
  if (!out.insert(data).second) illegal("a buffer given twice");
  handed.erase(data);
  if (client->zeroed) {
    // At other places each time: all of them would cost the launching thread more than CUPTI does.
    static std::atomic<size_t> turn{0};
    for (size_t i = turn++ * 64 % 4096; i < bytes; i += 4096 * 8) {
      if (data[i] != 0) illegal("a buffer promised to be zeroed is not");
    }
  }
  *buffer = {data, bytes, 0};
  return true;
}

void hand_over(Client* client, Buffer* buffer) {
  if (buffer->data == nullptr) return;
  {
    std::lock_guard<std::mutex> lock(out_mutex);
    if (out.erase(buffer->data) != 1) illegal("a buffer handed over that we do not have");
    handed.insert(buffer->data);
  }
  Buffer full = *buffer;
  *buffer = {};
  Calling calling(kBufferCallback);
  if (client->v2) {
    LayoutsTold told(client->layouts, kKinds);
    client->complete2(full.data, full.bytes, full.used, told.info());
  } else {
    client->complete(nullptr, 0, full.data, full.bytes, full.used);
  }
}

void pump(Client* client, Lane* lane, bool everything, uint32_t most) {
  uint64_t time = gpu_sim_now();
  for (uint32_t i = 0; i < most && !lane->pending.empty(); i++) {
    Work work = lane->pending.front();
    if (!everything && work.end_ns > time) return;
    uint32_t kind = kind_of(work);
    size_t size = client->record_bytes(kind);
    if (lane->buffer.data != nullptr && lane->buffer.used + size > lane->buffer.bytes) {
      hand_over(client, &lane->buffer);
    }
    if (lane->buffer.data == nullptr && !request_buffer(client, &lane->buffer)) {
      client->dropped++;
      lane->pending.pop_front();
      continue;
    }
    uint8_t* place = lane->buffer.data + lane->buffer.used;
    if (client->chooses_fields) {
      alignas(8) uint8_t whole[256] = {};
      write_record(whole, kind, work);
      pack(client->layouts[kind], whole, place);
    } else {
      write_record(place, kind, work);
    }
    lane->buffer.used += size;
    lane->pending.pop_front();
  }
}

void start_pump() {
  if (pumping.exchange(true)) return;
  pthread_t thread;
  pthread_create(&thread, nullptr, pump_all, nullptr);
  pthread_detach(thread);
}

abi::Result next_record(const Client& client, uint8_t* buffer, size_t valid,
                        abi::Activity** record) {
  if (buffer == nullptr || record == nullptr) return abi::kInvalidParameter;
  {
    std::lock_guard<std::mutex> lock(out_mutex);
    if (handed.count(buffer) == 0) illegal("records read from a buffer that was not handed over");
  }
  uint8_t* at = buffer;
  if (*record != nullptr) {
    at = reinterpret_cast<uint8_t*>(*record);
    if (at < buffer || at >= buffer + valid) illegal("a record of another buffer");
    at += client.record_bytes((*record)->kind);
  }
  if (at >= buffer + valid) return abi::kMaxLimitReached;
  // As a busy machine is to a thread, or a device that is slow to answer.
  static const bool is_slow = has_trap("slow_decode");
  if (is_slow && gettid() != getpid()) {
    timespec pause = {0, 1000000};
    nanosleep(&pause, nullptr);
  }
  static const bool is_cut = has_trap("cut_buffer");
  if (is_cut && at > buffer + valid / 2) return abi::kUnknown;
  *record = reinterpret_cast<abi::Activity*>(at);
  if ((*record)->kind >= kKinds || client.record_bytes((*record)->kind) == 0) {
    return abi::kInvalidKind;
  }
  return abi::kSuccess;
}

extern "C" {

abi::Result cuptiActivityFlushAll(uint32_t flag) {
  check_process();
  if (inside() == kBufferCallback) illegal("cuptiActivityFlushAll inside a buffer callback");
  if (inside() == kResource) illegal("cuptiActivityFlushAll inside a resource callback");
  if (flag == 1 && has_trap("hang_flush")) {
    while (true) pause();
  }
  for (Client& client : clients) {
    for (Lane& lane : client.lanes) {
      size_t moved = 64;
      while (moved == 64) {
        std::lock_guard<std::recursive_mutex> lock(client.mutex);
        if (!client.is_registered()) break;
        moved = lane.pending.size();
        pump(&client, &lane, flag == 1, 64);
        moved -= lane.pending.size();
      }
      std::lock_guard<std::recursive_mutex> lock(client.mutex);
      if (!client.is_registered()) continue;
      if (lane.buffer.used > 0 || flag == 1) hand_over(&client, &lane.buffer);
    }
  }
  return abi::kSuccess;
}

}  // extern "C"

}  // namespace gpu_sim
