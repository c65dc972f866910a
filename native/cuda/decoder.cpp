// native/cuda/decoder.cpp
#include "cuda/decoder.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

namespace pilotlight::cupti {
namespace {

// As PyTorch's profiler writes them, so that rules for its traces hold for recordings too.
const char* const kCopies[] = {"<unknown>", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                               "AtoD",      "DtoA", "DtoD", "HtoH", "PtoP"};
const char* const kMemories[] = {"Unknown", "Pageable", "Pinned", "Device",
                                 "Array",   "Managed",  "Device", "Managed"};
const char* const kSynchronizations[] = {"Synchronize", "Event Sync", "Stream Wait Event",
                                         "Stream Sync", "Context Sync"};
// More than a clock is off by, less than clocks differ by: a record may be asked for before its
// work is over.
constexpr double kSlackNs = 1e9;
constexpr uint64_t kWholeDevice = ~0ull;
constexpr uint64_t kMemoryTrack = ~0ull - 1;
constexpr uint64_t kOverheadTrack = ~0ull - 2;
constexpr uint64_t kExternalTrack = ~0ull - 3;
constexpr uint64_t kOtherTrack = ~0ull - 4;

struct OverheadName {
  const char* text;
  bool is_cuptis;
};

OverheadName overhead_name(uint32_t overhead) noexcept {
  switch (overhead) {
    case 1:
      return {"CUDA compiler", false};
    case 1 << 16:
      return {"CUPTI buffer flush", true};
    case 2 << 16:
      return {"CUPTI instrumentation", true};
    case 3 << 16:
      return {"CUPTI resource", true};
    case 4 << 16:
      return {"CUDA module loading", false};
    case 5 << 16:
      return {"CUDA lazy function loading", false};
    case 6 << 16:
      return {"CUDA command buffer full", false};
    case 7 << 16:
      return {"CUPTI buffer request", true};
    case 8 << 16:
      return {"CUPTI unified memory start", true};
    default:
      return {"CUPTI other", true};
  }
}

}  // namespace

bool Decoder::open(const ProviderApi* api) noexcept {
  api_ = api;
  uint32_t run = api->run->load(std::memory_order_relaxed);
  if (run != run_) {
    memset(tracks_, 0, sizeof(tracks_));
    memset(copy_names_, 0, sizeof(copy_names_));
    memset(spares_, 0, sizeof(spares_));
    run_ = run;
  }
  return names_->open(api);
}

uint32_t Decoder::name(const char* text) noexcept { return api_->string(text, strlen(text)); }

Decoder::TrackEntry* Decoder::track(uint32_t device, TrackKind kind, uint64_t stream) noexcept {
  uint64_t key = (uint64_t{device} + 1) << 48 ^ static_cast<uint64_t>(kind) << 44 ^ stream;
  uint32_t slot = static_cast<uint32_t>(key * 0x9e3779b97f4a7c15ull >> 48) & (kTracks - 1);
  for (uint32_t i = 0; i < 16; i++, slot = (slot + 1) & (kTracks - 1)) {
    if (tracks_[slot].key == key) return &tracks_[slot];
    if (tracks_[slot].key != 0) continue;
    char text[64];
    if (stream == kMemoryTrack) {
      snprintf(text, sizeof(text), "GPU %u memory", device);
    } else if (stream == kOverheadTrack) {
      snprintf(text, sizeof(text), "CUPTI overhead");
    } else if (stream == kExternalTrack) {
      snprintf(text, sizeof(text), "external ids");
    } else if (kind == TrackKind::kEngine) {
      snprintf(text, sizeof(text), "GPU %u", device);
    } else {
      snprintf(text, sizeof(text), "GPU %u stream %llu", device,
               static_cast<unsigned long long>(stream));
    }
    uint32_t id = api_->track(name(text), kind, static_cast<uint16_t>(device), stream);
    tracks_[slot] = {key, id, 0, 0};
    return &tracks_[slot];
  }
  TrackEntry& spare = spares_[device % kSpares];
  if (spare.id == 0) {
    char text[64];
    snprintf(text, sizeof(text), "GPU %u, other streams", device);
    spare.id =
        api_->track(name(text), TrackKind::kEngine, static_cast<uint16_t>(device), kOtherTrack);
  }
  // What is of several streams has no order.
  spare.last_start = 0;
  return &spare;
}

bool Decoder::wait_for_room() noexcept {
  timespec pause = {0, 500000};
  for (int64_t waited = 0; waited < patience_ns_; waited += pause.tv_nsec) {
    if (hurries_.load(std::memory_order_relaxed)) break;
    nanosleep(&pause, nullptr);
    if (ring_->has_room(sizeof(pilotlight::Activity))) return true;
  }
  patience_ns_ = 0;
  return false;
}

// By CUPTI's clock, or by another that fits. False: by none.
bool Decoder::place(uint64_t start, uint64_t* ticks) noexcept {
  *ticks = map_.ticks(start);
  if (__builtin_expect(*ticks >= earliest_ && *ticks <= latest_, 1)) return true;
  map_ = clock_->map_of(start, earliest_, latest_);
  *ticks = map_.ticks(start);
  return *ticks >= earliest_ && *ticks <= latest_;
}

void Decoder::write(ActivityKind kind, uint32_t name, TrackEntry* track, const Times& times,
                    uint32_t correlation, uint64_t bytes, uint64_t node, uint32_t graph) noexcept {
  if (node != 0) counts_.nodes.add(1);
  if (times.start == 0 || times.end == 0) {
    counts_.zero_times.add(1);
    return;
  }
  uint64_t start_ticks = 0;
  if (!place(times.start, &start_ticks)) {
    counts_.misplaced.add(1);
    return;
  }
  uint64_t length = times.end - times.start;
  if (times.end < times.start) {
    counts_.out_of_order.add(1);
    length = 0;
  } else if (times.start < track->last_start && track->buffer == buffers_) {
    counts_.out_of_order.add(1);
  }
  track->last_start = times.start;
  track->buffer = buffers_;
  pilotlight::Activity activity = {};
  activity.duration_ticks = map_.length_ticks(length);
  activity.track = track->id;
  activity.kind = static_cast<uint32_t>(kind);
  activity.correlation = correlation;
  activity.bytes = static_cast<int64_t>(bytes);
  activity.detail = uint64_t{graph} << 32 | (node & 0xffffffff);
  Origin origin = {0, 0};
  // A node of a graph comes from where it was captured, not from where the graph is launched.
  bool known = node != 0 && nodes_->find(node, &origin);
  if (node != 0 && !known) counts_.unknown_nodes.add(1);
  if (!known && !launches_->find(correlation, &origin)) counts_.without_origin.add(1);
  activity.stack = origin.stack;
  activity.range = origin.range;
  if (__builtin_expect(!ring_->has_room(sizeof(activity)), 0)) wait_for_room();
  if (ring_->write_at(RecordType::kActivity, name, activity, start_ticks)) {
    counts_.records.add(1);
  } else {
    counts_.ring_full.add_shared(1);
  }
}

void Decoder::kernel(const KernelRecord& record) noexcept {
  note(record.context, record.device);
  write(ActivityKind::kKernel, names_->id(record.name),
        track(record.device, TrackKind::kStream, record.stream), {record.start, record.end},
        record.correlation, 0, record.graph_node, record.graph);
}

void Decoder::copy(uint8_t kind, uint8_t from, uint8_t to, const Times& times, uint32_t device,
                   uint32_t stream, uint32_t correlation, uint64_t bytes, uint64_t node,
                   uint32_t graph) noexcept {
  uint32_t* known = &copy_names_[kind & 15][from & 7][to & 7];
  if (*known == 0) {
    char text[64];
    const char* way = kind < sizeof(kCopies) / sizeof(kCopies[0]) ? kCopies[kind] : kCopies[0];
    snprintf(text, sizeof(text), "Memcpy %s (%s -> %s)", way, kMemories[from & 7],
             kMemories[to & 7]);
    *known = name(text);
  }
  write(ActivityKind::kMemcpy, *known, track(device, TrackKind::kStream, stream), times,
        correlation, bytes, node, graph);
}

void Decoder::synchronization(const SynchronizationRecord& record) noexcept {
  uint32_t device = device_of_[record.context % kContexts].load(std::memory_order_relaxed);
  // Of a whole context there is no stream.
  bool whole = record.stream == 0xffffffff || record.type == 4;
  TrackEntry* place = whole ? track(device, TrackKind::kEngine, kWholeDevice)
                            : track(device, TrackKind::kStream, record.stream);
  uint32_t type = record.type < 5 ? record.type : 0;
  // A wait overlaps the work that it waits for: it does not count for the order of its stream.
  uint64_t last_start = place->last_start;
  place->last_start = 0;
  write(ActivityKind::kSynchronization, name(kSynchronizations[type]), place,
        {record.start, record.end}, record.correlation, 0, 0, 0);
  place->last_start = last_start;
}

void Decoder::graph(const GraphTraceRecord& record) noexcept {
  counts_.graphs.add(1);
  char text[32];
  snprintf(text, sizeof(text), "CUDA graph %u", record.graph);
  write(ActivityKind::kGraph, name(text), track(record.device, TrackKind::kStream, record.stream),
        {record.start, record.end}, record.correlation, 0, 0, record.graph);
}

void Decoder::overhead(const OverheadRecord& record) noexcept {
  OverheadName known = overhead_name(record.overhead);
  // What CUDA does whether or not there are records is no cost of theirs: a job that keeps its GPU
  // busy may wait for room in the command buffer most of the time.
  if (known.is_cuptis && record.end > record.start) {
    counts_.overhead_ns.add(map_.length_ns(record.end - record.start));
  }
  write(ActivityKind::kOverhead, name(known.text), track(0, TrackKind::kEngine, kOverheadTrack),
        {record.start, record.end}, 0, 0, 0, 0);
}

void Decoder::memory(const MemoryRecord& record) noexcept {
  bool is_free = record.operation == 2;
  write(is_free ? ActivityKind::kFree : ActivityKind::kAllocation,
        name(is_free ? "free" : "allocation"),
        track(record.device, TrackKind::kEngine, kMemoryTrack), {record.time, record.time},
        record.correlation, record.bytes, 0, 0);
}

void Decoder::external(const ExternalRecord& record) noexcept {
  constexpr const char* kKinds[] = {"other", "unknown", "openacc", "custom0", "custom1", "custom2"};
  uint32_t kind =
      record.external_kind < sizeof(kKinds) / sizeof(kKinds[0]) ? record.external_kind : 0;
  pilotlight::Activity activity = {};
  activity.track = track(0, TrackKind::kEngine, kExternalTrack)->id;
  activity.kind = static_cast<uint32_t>(ActivityKind::kExternalId);
  activity.correlation = record.correlation;
  activity.detail = record.external_id;
  if (__builtin_expect(!ring_->has_room(sizeof(activity)), 0)) wait_for_room();
  if (ring_->write(RecordType::kActivity, name(kKinds[kind]), activity)) {
    counts_.records.add(1);
  } else {
    counts_.ring_full.add_shared(1);
  }
}

void Decoder::dispatch(const cupti::Activity* record) noexcept {
  switch (record->kind) {
    case kKernel:
    case kConcurrentKernel:
      return kernel(*reinterpret_cast<const KernelRecord*>(record));
    case kMemcpy: {
      const auto& r = *reinterpret_cast<const MemcpyRecord*>(record);
      return copy(r.copy_kind, r.source_kind, r.target_kind, {r.start, r.end}, r.device, r.stream,
                  r.correlation, r.bytes, r.graph_node, r.graph);
    }
    case kMemcpyPeer: {
      const auto& r = *reinterpret_cast<const MemcpyPeerRecord*>(record);
      return copy(r.copy_kind, r.source_kind, r.target_kind, {r.start, r.end}, r.device, r.stream,
                  r.correlation, r.bytes, r.graph_node, r.graph);
    }
    case kMemset: {
      const auto& r = *reinterpret_cast<const MemsetRecord*>(record);
      return write(ActivityKind::kMemset, name("Memset (Device)"),
                   track(r.device, TrackKind::kStream, r.stream), {r.start, r.end}, r.correlation,
                   r.bytes, r.graph_node, r.graph);
    }
    case kSynchronization:
      return synchronization(*reinterpret_cast<const SynchronizationRecord*>(record));
    case kGraphTrace:
      return graph(*reinterpret_cast<const GraphTraceRecord*>(record));
    case kOverhead:
      return overhead(*reinterpret_cast<const OverheadRecord*>(record));
    case kMemory2:
      return memory(*reinterpret_cast<const MemoryRecord*>(record));
    case kExternalCorrelation:
      return external(*reinterpret_cast<const ExternalRecord*>(record));
    case kDriverApi:
    case kRuntimeApi:
      return;  // only there because external ids come with them
    default:
      counts_.unknown.add(1);
  }
}

bool Decoder::decode(const FullBuffer& buffer, RingWriter* ring, int64_t patience_ns) noexcept {
  ring_ = ring;
  patience_ns_ = patience_ns;
  buffers_++;
  map_ = clock_->map();
  auto slack = static_cast<uint64_t>(kSlackNs * clock_->ticks_per_ns());
  earliest_ = clock_->first_ticks() > slack ? clock_->first_ticks() - slack : 0;
  latest_ = ticks_of(clock_->kind()) + slack;
  inside_ = buffer;
  done_before_ = done_;
  is_inside_.store(true, std::memory_order_release);
  cupti::Activity* record = nullptr;
  Result result = kMaxLimitReached;
  while (buffer.valid_bytes != 0) {
    if (__builtin_expect(stops_.load(std::memory_order_relaxed), 0)) return false;
    result = library_->next_record(buffer.data, buffer.valid_bytes, &record);
    if (result != kSuccess) break;
    const cupti::Activity* whole = library_->whole(record, &whole_);
    if (whole != nullptr) {
      dispatch(whole);
    } else {
      counts_.unknown.add(1);
    }
    done_.add(1);
  }
  is_inside_.store(false, std::memory_order_release);
  counts_.bytes.add(buffer.valid_bytes);
  if (result != kMaxLimitReached) counts_.cut_buffers.add(1);
  add_dropped(buffer);
  return true;
}

void Decoder::add_dropped(const FullBuffer& buffer) noexcept {
  size_t dropped = 0;
  if (ignores_dropped_.load(std::memory_order_relaxed)) return;
  if (library_->dropped(buffer.context, buffer.stream, &dropped) == kSuccess) {
    counts_.cupti_lost.add_shared(dropped);
  }
}

void Decoder::drop(const FullBuffer& buffer) noexcept {
  counts_.ring_full.add_shared(count(buffer));
  add_dropped(buffer);
}

void Decoder::turn_away(const FullBuffer& buffer) noexcept {
  counts_.ring_full.add_shared(count(buffer));
}

void Decoder::stop() noexcept {
  hurry();
  stops_.store(true);
}

uint64_t Decoder::left() noexcept {
  if (!is_inside_.load(std::memory_order_acquire)) return 0;
  uint64_t all = count(inside_);
  uint64_t done = done_ - done_before_;
  return all > done ? all - done : 0;
}

uint64_t Decoder::count(const FullBuffer& buffer) noexcept {
  cupti::Activity* record = nullptr;
  uint64_t records = 0;
  while (buffer.valid_bytes != 0 &&
         library_->next_record(buffer.data, buffer.valid_bytes, &record) == kSuccess) {
    records++;
  }
  return records;
}

}  // namespace pilotlight::cupti
