// native/cuda/record_fields.cpp
#include "cuda/record_fields.h"

#include <string.h>

#include "provider/brief_lock.h"

namespace pilotlight::cupti {
namespace {

constexpr size_t kMaxRecordBytes = 4096;

// A field, and its place in the record of ours.
struct Wanted {
  int field;
  uint16_t to;
  uint8_t bytes;
};
struct Wish {
  const Wanted* wanted = nullptr;
  uint32_t count = 0;
};

#define FIELD(number, record, member) {number, offsetof(record, member), sizeof(record::member)}

// The order is that of the record: one with small gaps.
constexpr Wanted kKernelFields[] = {
    FIELD(kernel_field::kKind, KernelRecord, kind),
    FIELD(kernel_field::kDevice, KernelRecord, device),
    FIELD(kernel_field::kStart, KernelRecord, start),
    FIELD(kernel_field::kEnd, KernelRecord, end),
    FIELD(kernel_field::kContext, KernelRecord, context),
    FIELD(kernel_field::kStream, KernelRecord, stream),
    FIELD(kernel_field::kCorrelation, KernelRecord, correlation),
    FIELD(kernel_field::kName, KernelRecord, name),
    FIELD(kernel_field::kGraphNode, KernelRecord, graph_node),
    FIELD(kernel_field::kGraph, KernelRecord, graph),
};
constexpr Wanted kCopyFields[] = {
    FIELD(copy_field::kKind, MemcpyRecord, kind),
    FIELD(copy_field::kCopyKind, MemcpyRecord, copy_kind),
    FIELD(copy_field::kSourceKind, MemcpyRecord, source_kind),
    FIELD(copy_field::kTargetKind, MemcpyRecord, target_kind),
    FIELD(copy_field::kBytes, MemcpyRecord, bytes),
    FIELD(copy_field::kStart, MemcpyRecord, start),
    FIELD(copy_field::kEnd, MemcpyRecord, end),
    FIELD(copy_field::kDevice, MemcpyRecord, device),
    FIELD(copy_field::kStream, MemcpyRecord, stream),
    FIELD(copy_field::kCorrelation, MemcpyRecord, correlation),
    FIELD(copy_field::kGraphNode, MemcpyRecord, graph_node),
    FIELD(copy_field::kGraph, MemcpyRecord, graph),
};
constexpr Wanted kPeerFields[] = {
    FIELD(copy_field::kKind, MemcpyPeerRecord, kind),
    FIELD(copy_field::kCopyKind, MemcpyPeerRecord, copy_kind),
    FIELD(copy_field::kSourceKind, MemcpyPeerRecord, source_kind),
    FIELD(copy_field::kTargetKind, MemcpyPeerRecord, target_kind),
    FIELD(copy_field::kBytes, MemcpyPeerRecord, bytes),
    FIELD(copy_field::kStart, MemcpyPeerRecord, start),
    FIELD(copy_field::kEnd, MemcpyPeerRecord, end),
    FIELD(copy_field::kDevice, MemcpyPeerRecord, device),
    FIELD(copy_field::kStream, MemcpyPeerRecord, stream),
    FIELD(peer_field::kCorrelation, MemcpyPeerRecord, correlation),
    FIELD(peer_field::kGraphNode, MemcpyPeerRecord, graph_node),
    FIELD(peer_field::kGraph, MemcpyPeerRecord, graph),
};
constexpr Wanted kSetFields[] = {
    FIELD(set_field::kKind, MemsetRecord, kind),
    FIELD(set_field::kDevice, MemsetRecord, device),
    FIELD(set_field::kBytes, MemsetRecord, bytes),
    FIELD(set_field::kStart, MemsetRecord, start),
    FIELD(set_field::kEnd, MemsetRecord, end),
    FIELD(set_field::kCorrelation, MemsetRecord, correlation),
    FIELD(set_field::kGraphNode, MemsetRecord, graph_node),
    FIELD(set_field::kStream, MemsetRecord, stream),
    FIELD(set_field::kGraph, MemsetRecord, graph),
};
constexpr Wanted kWaitFields[] = {
    FIELD(wait_field::kKind, SynchronizationRecord, kind),
    FIELD(wait_field::kType, SynchronizationRecord, type),
    FIELD(wait_field::kStart, SynchronizationRecord, start),
    FIELD(wait_field::kEnd, SynchronizationRecord, end),
    FIELD(wait_field::kCorrelation, SynchronizationRecord, correlation),
    FIELD(wait_field::kContext, SynchronizationRecord, context),
    FIELD(wait_field::kStream, SynchronizationRecord, stream),
};
constexpr Wanted kGraphFields[] = {
    FIELD(graph_field::kKind, GraphTraceRecord, kind),
    FIELD(graph_field::kDevice, GraphTraceRecord, device),
    FIELD(graph_field::kCorrelation, GraphTraceRecord, correlation),
    FIELD(graph_field::kStart, GraphTraceRecord, start),
    FIELD(graph_field::kEnd, GraphTraceRecord, end),
    FIELD(graph_field::kGraph, GraphTraceRecord, graph),
    FIELD(graph_field::kStream, GraphTraceRecord, stream),
};
constexpr Wanted kOverheadFields[] = {
    FIELD(overhead_field::kKind, OverheadRecord, kind),
    FIELD(overhead_field::kOverhead, OverheadRecord, overhead),
    FIELD(overhead_field::kStart, OverheadRecord, start),
    FIELD(overhead_field::kEnd, OverheadRecord, end),
};
constexpr Wanted kMemoryFields[] = {
    FIELD(memory_field::kKind, MemoryRecord, kind),
    FIELD(memory_field::kOperation, MemoryRecord, operation),
    FIELD(memory_field::kCorrelation, MemoryRecord, correlation),
    FIELD(memory_field::kBytes, MemoryRecord, bytes),
    FIELD(memory_field::kTime, MemoryRecord, time),
    FIELD(memory_field::kDevice, MemoryRecord, device),
};
#undef FIELD

template <uint32_t N>
constexpr Wish all_of(const Wanted (&wanted)[N]) noexcept {
  static_assert(N <= RecordFields::kMaxFields);
  return {wanted, N};
}

Wish wish_of(uint32_t kind) noexcept {
  switch (kind) {
    case kConcurrentKernel:
      return all_of(kKernelFields);
    case kMemcpy:
      return all_of(kCopyFields);
    case kMemcpyPeer:
      return all_of(kPeerFields);
    case kMemset:
      return all_of(kSetFields);
    case kSynchronization:
      return all_of(kWaitFields);
    case kGraphTrace:
      return all_of(kGraphFields);
    case kOverhead:
      return all_of(kOverheadFields);
    case kMemory2:
      return all_of(kMemoryFields);
    default:
      return {};
  }
}

// Wide enough, and inside the record; some are wider than in the fixed records.
bool holds(const RecordLayout& layout, const FieldPlace& place, const Wanted& wanted) noexcept {
  return place.bytes >= wanted.bytes && place.bytes <= sizeof(uint64_t) &&
         layout.record_bytes <= kMaxRecordBytes && place.offset <= layout.record_bytes &&
         place.bytes <= layout.record_bytes - place.offset;
}

}  // namespace

bool RecordFields::select(Kind kind, Selection* selection) noexcept {
  Wish wish = wish_of(kind);
  for (uint32_t i = 0; i < wish.count; i++) selection->fields[i] = wish.wanted[i].field;
  FieldSelection fields = {sizeof(FieldSelection), wish.count, selection->fields};
  selection->config = {sizeof(ActivityConfig), fields};
  return wish.count != 0;
}

void RecordFields::learn(const CompleteInfo* info) noexcept {
  if (info == nullptr || info->struct_bytes < sizeof(CompleteInfo) || info->layouts == nullptr) {
    failed_.store(true, std::memory_order_relaxed);
    return;
  }
  // Whoever cannot have it leaves what it would have told to the next buffer.
  BriefLock lock(learns_);
  if (!lock) return;
  for (uint32_t kind = 0; kind < kKinds && kind < info->layout_count; kind++) {
    if (info->layouts[kind] != nullptr) learn_kind(kind, *info->layouts[kind]);
  }
}

void RecordFields::learn_kind(uint32_t kind, const RecordLayout& layout) noexcept {
  Plan& plan = plans_[kind];
  Wish wish = wish_of(kind);
  // We ask for the same fields always, so they lie where they lay.
  if (wish.count == 0 || plan.count.load(std::memory_order_relaxed) != 0) return;
  for (uint32_t i = 0; i < wish.count; i++) {
    const Wanted& wanted = wish.wanted[i];
    const FieldPlace* found = nullptr;
    for (size_t j = 0; j < layout.count && found == nullptr; j++) {
      if (layout.places[j].field == wanted.field) found = &layout.places[j];
    }
    if (found == nullptr || !holds(layout, *found, wanted)) {
      failed_.store(true, std::memory_order_relaxed);
      return;
    }
    plan.moves[i] = {static_cast<uint16_t>(found->offset), wanted.to, wanted.bytes};
  }
  plan.count.store(wish.count, std::memory_order_release);
}

bool RecordFields::unpack(const Activity& record, WholeRecord* whole) const noexcept {
  if (record.kind >= kKinds) return false;
  const Plan& plan = plans_[record.kind];
  uint32_t count = plan.count.load(std::memory_order_acquire);
  const auto* from = reinterpret_cast<const uint8_t*>(&record);
  auto* to = reinterpret_cast<uint8_t*>(whole);
  for (uint32_t i = 0; i < count; i++) {
    const Move& move = plan.moves[i];
    // The low bytes of a wider number.
    switch (move.bytes) {
      case 8:
        memcpy(to + move.to, from + move.from, 8);
        break;
      case 4:
        memcpy(to + move.to, from + move.from, 4);
        break;
      default:
        to[move.to] = from[move.from];
    }
  }
  return count != 0;
}

}  // namespace pilotlight::cupti
