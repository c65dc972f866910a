// native/cuda/decoder.h: from CUPTI's records to ours. Runs on our thread only.
#pragma once

#include <atomic>
#include <cstdint>

#include "cuda/buffer_pool.h"
#include "cuda/count.h"
#include "cuda/cupti_library.h"
#include "cuda/gpu_clock.h"
#include "cuda/graph_nodes.h"
#include "cuda/kernel_names.h"
#include "cuda/launch_table.h"
#include "provider/provider_api.h"

namespace pilotlight::cupti {

struct DecodeCounts {
  Count records;         // written
  Count bytes;           // that CUPTI needed for records
  Count ring_full;       // had no room in the ring although we waited
  Count cupti_lost;      // that CUPTI says it dropped
  Count zero_times;      // without a start or an end, left out
  Count out_of_order;    // ended before they began, or began before the last of their stream
  Count unknown;         // of a kind that we did not ask for
  Count without_origin;  // whose launch was not found any more
  Count overhead_ns;     // of CUPTI itself, by its own records
  Count cut_buffers;     // whose rest CUPTI could not read
  Count graphs;          // as a whole, with or without times
  Count nodes;           // of graphs, the same
  Count misplaced;       // before the process began or after now, left out
  Count unknown_nodes;   // that nobody saw captured, or too long ago
};

// As they are called in counters.
struct DecodeCounter {
  const char* name;
  Count DecodeCounts::* count;
};
inline constexpr DecodeCounter kDecodeCounters[] = {
    {"gpu/records", &DecodeCounts::records},
    {"gpu/record_bytes", &DecodeCounts::bytes},
    {"gpu/lost_by_cupti", &DecodeCounts::cupti_lost},
    {"gpu/lost_ring_full", &DecodeCounts::ring_full},
    {"gpu/cut_buffers", &DecodeCounts::cut_buffers},
    {"gpu/zero_timestamps", &DecodeCounts::zero_times},
    {"gpu/out_of_order", &DecodeCounts::out_of_order},
    {"gpu/misplaced", &DecodeCounts::misplaced},
    {"gpu/unknown_records", &DecodeCounts::unknown},
    {"gpu/without_launch", &DecodeCounts::without_origin},
    {"gpu/nodes_lost", &DecodeCounts::unknown_nodes},
};

class Decoder {
 public:
  Decoder(Library* library, GpuClock* clock, KernelNames* names, LaunchTable* launches,
          GraphNodes* nodes) noexcept
      : library_(library), clock_(clock), names_(names), launches_(launches), nodes_(nodes) {}

  bool open(const ProviderApi* api) noexcept;
  // On any thread: a context, by the number that records have of it, and its device.
  void note(uint32_t context, uint32_t device) noexcept {
    device_of_[context % kContexts].store(static_cast<uint16_t>(device), std::memory_order_relaxed);
  }

  // Where the ring is full it waits until the agent makes room, each time at most `patience_ns`.
  // False: it was stopped in the middle.
  bool decode(const FullBuffer& buffer, RingWriter* ring, int64_t patience_ns) noexcept;
  // There is no ring: its records are lost and counted.
  void drop(const FullBuffer& buffer) noexcept;
  // On any thread: there is no room to keep it until it can be decoded.
  void turn_away(const FullBuffer& buffer) noexcept;
  // Counts what CUPTI had to drop. Any thread.
  void add_dropped(const FullBuffer& buffer) noexcept;
  // Or not: nobody wants it.
  void ignore_dropped(bool ignores) noexcept { ignores_dropped_.store(ignores); }
  // From another thread: wait no more, the process ends; what finds no room is counted as lost.
  void hurry() noexcept { hurries_.store(true, std::memory_order_relaxed); }
  // From another thread: decode no more.
  void stop() noexcept;
  bool is_stopped() const noexcept { return stops_.load(); }
  // After that: how many records of the buffer that it was in it did not come to; the one that it
  // is just writing may be among them.
  uint64_t left() noexcept;
  // How many records a buffer has. Any thread.
  uint64_t count(const FullBuffer& buffer) noexcept;
  const DecodeCounts& counts() const noexcept { return counts_; }

 private:
  static constexpr uint32_t kTracks = 1 << 10;
  static constexpr uint32_t kSpares = 64;
  static constexpr uint32_t kContexts = 256;
  struct TrackEntry {
    uint64_t key;  // device + 1, kind and stream; 0: free
    uint32_t id;
    uint64_t last_start;  // in the buffer of that number: each thread has its own
    uint64_t buffer;
  };
  struct Times {
    uint64_t start, end;
  };

  void kernel(const KernelRecord& record) noexcept;
  void copy(uint8_t kind, uint8_t from, uint8_t to, const Times& times, uint32_t device,
            uint32_t stream, uint32_t correlation, uint64_t bytes, uint64_t node,
            uint32_t graph) noexcept;
  void synchronization(const SynchronizationRecord& record) noexcept;
  void graph(const GraphTraceRecord& record) noexcept;
  void overhead(const OverheadRecord& record) noexcept;
  void external(const ExternalRecord& record) noexcept;
  void memory(const MemoryRecord& record) noexcept;
  void write(ActivityKind kind, uint32_t name, TrackEntry* track, const Times& times,
             uint32_t correlation, uint64_t bytes, uint64_t node, uint32_t graph) noexcept;
  void dispatch(const cupti::Activity* record) noexcept;
  bool wait_for_room() noexcept;
  bool place(uint64_t start, uint64_t* ticks) noexcept;
  TrackEntry* track(uint32_t device, TrackKind kind, uint64_t stream) noexcept;
  uint32_t name(const char* text) noexcept;

  Library* library_;
  GpuClock* clock_;
  KernelNames* names_;
  LaunchTable* launches_;
  GraphNodes* nodes_;
  const ProviderApi* api_ = nullptr;
  RingWriter* ring_ = nullptr;
  ClockMap map_ = {0, 0, 1, 1};
  uint64_t earliest_ = 0, latest_ = 0;  // ticks at which work of this buffer may have begun
  int64_t patience_ns_ = 0;
  std::atomic<bool> ignores_dropped_{false};
  std::atomic<bool> hurries_{false};
  std::atomic<bool> stops_{false};
  std::atomic<bool> is_inside_{false};  // a buffer, `inside_`
  FullBuffer inside_ = {};
  WholeRecord whole_ = {};
  Count done_;  // records of the buffers it was in
  uint64_t done_before_ = 0;
  uint64_t buffers_ = 0;
  uint32_t run_ = 0;
  DecodeCounts counts_;
  TrackEntry tracks_[kTracks] = {};
  TrackEntry spares_[kSpares] = {};  // by device: for streams for which the table has no room
  std::atomic<uint16_t> device_of_[kContexts] = {};
  uint32_t copy_names_[16][8][8] = {};
};

}  // namespace pilotlight::cupti
