// native/tests/gpu_sim/cupti_client.h: a subscriber of the simulated CUPTI, and what it has on.
#pragma once

#include <atomic>
#include <deque>
#include <mutex>

#include "cupti_sim.h"
#include "fields_sim.h"

namespace gpu_sim {

constexpr uint32_t kClients = 4;
constexpr uint32_t kMaxId = 1024;
constexpr uint32_t kKinds = 64;
constexpr uint32_t kLanes = 16;

struct Buffer {
  uint8_t* data = nullptr;
  size_t bytes = 0, used = 0;
};

struct Lane {
  std::deque<Work> pending;
  Buffer buffer;
};

struct Client {
  bool subscribed = false;
  bool v2 = false;
  pilotlight::cupti::Callback callback = nullptr;
  void* user = nullptr;
  std::atomic<uint8_t> enabled[4][kMaxId] = {};
  std::atomic<uint8_t> kinds[kKinds] = {};
  pilotlight::cupti::RequestBuffer request = nullptr;
  pilotlight::cupti::CompleteBuffer complete = nullptr;
  pilotlight::cupti::RequestBuffer2 request2 = nullptr;
  pilotlight::cupti::CompleteBuffer2 complete2 = nullptr;
  bool zeroed = false;
  bool chooses_fields = false;
  Layout layouts[kKinds];  // where it chooses fields
  std::atomic<uint64_t> dropped{0};
  std::recursive_mutex mutex;
  Lane lanes[kLanes];

  bool is_registered() const { return request != nullptr || request2 != nullptr; }
  size_t record_bytes(uint32_t kind) const {
    return chooses_fields ? layouts[kind].record_bytes : size_of(kind);
  }
};

extern Client (&clients)[kClients];
extern std::atomic<int> kinds_on[kKinds];  // by how many of them
extern std::atomic<uint32_t> graph_turns;  // of records of whole graphs

// V1 has no clients: the first entry stands for whoever registered last.
inline Client* v1_client() { return &clients[0]; }
// Ends the process where it is none.
Client* client_of(void* subscriber);
pilotlight::cupti::Result add_client(void** subscriber, pilotlight::cupti::Callback callback,
                                     void* user, bool v2, bool many);
pilotlight::cupti::Result enable_kind(Client* client, uint32_t kind, bool on);
pilotlight::cupti::Result enable_hardware_events();
void set_kind(Client* client, uint32_t kind, bool on);
bool any_kind_on();
// To the simulated driver.
void attach();
extern std::atomic<bool> hardware_events, has_context;
// More than one may subscribe: then graphs are shown in one way to all.
bool is_shared();
extern std::atomic<bool> whole_graphs;

enum Inside { kNowhere, kApi, kResource, kBufferCallback };
Inside inside();

// Calls of the client's own code, with the mark of where we are.
class Calling {
 public:
  explicit Calling(Inside where);
  ~Calling();

 private:
  Inside before_;
};

// Of buffers. The caller holds the client.
bool request_buffer(Client* client, Buffer* buffer);
void hand_over(Client* client, Buffer* buffer);
// Moves what has ended into buffers.
void pump(Client* client, Lane* lane, bool everything, uint32_t most = ~0u);
void start_pump();
pilotlight::cupti::Result next_record(const Client& client, uint8_t* buffer, size_t valid,
                                      pilotlight::cupti::Activity** record);

}  // namespace gpu_sim
