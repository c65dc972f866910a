// native/tests/gpu_sim/fields_sim.cpp
#include "fields_sim.h"

#include <unistd.h>

#include <algorithm>

#include "sim.h"

namespace abi = pilotlight::cupti;

namespace gpu_sim {
namespace {

// A field as the headers describe it, and where a whole record of this simulator has it.
struct Field {
  uint32_t kind;
  int number;
  size_t bytes;
  size_t from, from_bytes;
};

#define FIELD(kind, number, bytes, record, member) \
  {abi::kind, abi::number, bytes, offsetof(abi::record, member), sizeof(abi::record::member)}

const Field kFields[] = {
    FIELD(kConcurrentKernel, kernel_field::kKind, 4, KernelRecord, kind),
    FIELD(kConcurrentKernel, kernel_field::kStart, 8, KernelRecord, start),
    FIELD(kConcurrentKernel, kernel_field::kEnd, 8, KernelRecord, end),
    FIELD(kConcurrentKernel, kernel_field::kDevice, 4, KernelRecord, device),
    FIELD(kConcurrentKernel, kernel_field::kContext, 8, KernelRecord, context),
    FIELD(kConcurrentKernel, kernel_field::kStream, 8, KernelRecord, stream),
    FIELD(kConcurrentKernel, kernel_field::kCorrelation, 8, KernelRecord, correlation),
    FIELD(kConcurrentKernel, kernel_field::kName, 8, KernelRecord, name),
    FIELD(kConcurrentKernel, kernel_field::kGraphNode, 8, KernelRecord, graph_node),
    FIELD(kConcurrentKernel, kernel_field::kGraph, 4, KernelRecord, graph),
    FIELD(kMemcpy, copy_field::kKind, 4, MemcpyRecord, kind),
    FIELD(kMemcpy, copy_field::kCopyKind, 1, MemcpyRecord, copy_kind),
    FIELD(kMemcpy, copy_field::kSourceKind, 1, MemcpyRecord, source_kind),
    FIELD(kMemcpy, copy_field::kTargetKind, 1, MemcpyRecord, target_kind),
    FIELD(kMemcpy, copy_field::kBytes, 8, MemcpyRecord, bytes),
    FIELD(kMemcpy, copy_field::kStart, 8, MemcpyRecord, start),
    FIELD(kMemcpy, copy_field::kEnd, 8, MemcpyRecord, end),
    FIELD(kMemcpy, copy_field::kDevice, 4, MemcpyRecord, device),
    FIELD(kMemcpy, copy_field::kStream, 4, MemcpyRecord, stream),
    FIELD(kMemcpy, copy_field::kCorrelation, 8, MemcpyRecord, correlation),
    FIELD(kMemcpy, copy_field::kGraphNode, 8, MemcpyRecord, graph_node),
    FIELD(kMemcpy, copy_field::kGraph, 4, MemcpyRecord, graph),
    FIELD(kMemcpyPeer, copy_field::kKind, 4, MemcpyPeerRecord, kind),
    FIELD(kMemcpyPeer, copy_field::kCopyKind, 1, MemcpyPeerRecord, copy_kind),
    FIELD(kMemcpyPeer, copy_field::kSourceKind, 1, MemcpyPeerRecord, source_kind),
    FIELD(kMemcpyPeer, copy_field::kTargetKind, 1, MemcpyPeerRecord, target_kind),
    FIELD(kMemcpyPeer, copy_field::kBytes, 8, MemcpyPeerRecord, bytes),
    FIELD(kMemcpyPeer, copy_field::kStart, 8, MemcpyPeerRecord, start),
    FIELD(kMemcpyPeer, copy_field::kEnd, 8, MemcpyPeerRecord, end),
    FIELD(kMemcpyPeer, copy_field::kDevice, 4, MemcpyPeerRecord, device),
    FIELD(kMemcpyPeer, copy_field::kStream, 4, MemcpyPeerRecord, stream),
    FIELD(kMemcpyPeer, peer_field::kCorrelation, 8, MemcpyPeerRecord, correlation),
    FIELD(kMemcpyPeer, peer_field::kGraphNode, 8, MemcpyPeerRecord, graph_node),
    FIELD(kMemcpyPeer, peer_field::kGraph, 4, MemcpyPeerRecord, graph),
    FIELD(kMemset, set_field::kKind, 4, MemsetRecord, kind),
    FIELD(kMemset, set_field::kBytes, 8, MemsetRecord, bytes),
    FIELD(kMemset, set_field::kStart, 8, MemsetRecord, start),
    FIELD(kMemset, set_field::kEnd, 8, MemsetRecord, end),
    FIELD(kMemset, set_field::kDevice, 4, MemsetRecord, device),
    FIELD(kMemset, set_field::kStream, 4, MemsetRecord, stream),
    FIELD(kMemset, set_field::kCorrelation, 8, MemsetRecord, correlation),
    FIELD(kMemset, set_field::kGraphNode, 8, MemsetRecord, graph_node),
    FIELD(kMemset, set_field::kGraph, 4, MemsetRecord, graph),
    FIELD(kSynchronization, wait_field::kKind, 4, SynchronizationRecord, kind),
    FIELD(kSynchronization, wait_field::kType, 4, SynchronizationRecord, type),
    FIELD(kSynchronization, wait_field::kStart, 8, SynchronizationRecord, start),
    FIELD(kSynchronization, wait_field::kEnd, 8, SynchronizationRecord, end),
    FIELD(kSynchronization, wait_field::kCorrelation, 8, SynchronizationRecord, correlation),
    FIELD(kSynchronization, wait_field::kContext, 4, SynchronizationRecord, context),
    FIELD(kSynchronization, wait_field::kStream, 4, SynchronizationRecord, stream),
    FIELD(kGraphTrace, graph_field::kKind, 4, GraphTraceRecord, kind),
    FIELD(kGraphTrace, graph_field::kCorrelation, 8, GraphTraceRecord, correlation),
    FIELD(kGraphTrace, graph_field::kStart, 8, GraphTraceRecord, start),
    FIELD(kGraphTrace, graph_field::kEnd, 8, GraphTraceRecord, end),
    FIELD(kGraphTrace, graph_field::kDevice, 4, GraphTraceRecord, device),
    FIELD(kGraphTrace, graph_field::kGraph, 4, GraphTraceRecord, graph),
    FIELD(kGraphTrace, graph_field::kStream, 4, GraphTraceRecord, stream),
    FIELD(kOverhead, overhead_field::kKind, 4, OverheadRecord, kind),
    FIELD(kOverhead, overhead_field::kOverhead, 4, OverheadRecord, overhead),
    FIELD(kOverhead, overhead_field::kStart, 8, OverheadRecord, start),
    FIELD(kOverhead, overhead_field::kEnd, 8, OverheadRecord, end),
    FIELD(kMemory2, memory_field::kKind, 4, MemoryRecord, kind),
    FIELD(kMemory2, memory_field::kOperation, 4, MemoryRecord, operation),
    FIELD(kMemory2, memory_field::kCorrelation, 8, MemoryRecord, correlation),
    FIELD(kMemory2, memory_field::kBytes, 8, MemoryRecord, bytes),
    FIELD(kMemory2, memory_field::kTime, 8, MemoryRecord, time),
    FIELD(kMemory2, memory_field::kDevice, 4, MemoryRecord, device),
};
#undef FIELD

const Field* find(uint32_t kind, int number) {
  for (const Field& field : kFields) {
    if (field.kind == kind && field.number == number) return &field;
  }
  return nullptr;
}

size_t aligned(size_t offset, size_t alignment) {
  return (offset + alignment - 1) / alignment * alignment;
}

}  // namespace

std::vector<int> Layout::fields() const {
  std::vector<int> all;
  for (const abi::FieldPlace& place : places) all.push_back(place.field);
  std::sort(all.begin(), all.end());
  return all;
}

abi::Result lay_out(uint32_t kind, const abi::ActivityConfig* config, Layout* layout) {
  if (config == nullptr) return abi::kInvalidParameter;
  const abi::FieldSelection& selection = config->selection;
  if (config->struct_bytes != sizeof(abi::ActivityConfig)) {
    illegal("CUpti_ActivityConfig with a wrong structSize");
  }
  if (selection.struct_bytes != sizeof(abi::FieldSelection)) {
    illegal("CUpti_ActivityFieldSelection with a wrong structSize");
  }
  if (selection.count == 0 || selection.fields == nullptr || selection.fields[0] != 0) {
    illegal("a selection of fields that does not begin with that of the kind");
  }
  std::vector<int> fields(selection.fields, selection.fields + selection.count);
  // A legal order that nobody may take for granted, and gaps.
  static const bool is_apart = has_trap("fields_apart");
  if (is_apart) std::reverse(fields.begin() + 1, fields.end());
  size_t offset = 0;
  for (int number : fields) {
    const Field* field = find(kind, number);
    if (field == nullptr) illegal("a field that this kind has not, or that is not simulated");
    for (const abi::FieldPlace& other : layout->places) {
      if (other.field == number) illegal("a field selected twice");
    }
    offset = aligned(offset + (is_apart && number != 0 ? 8 : 0), field->bytes);
    layout->places.push_back({sizeof(abi::FieldPlace), number, offset, field->bytes, field->bytes});
    layout->sources.push_back({field->from, field->from_bytes});
    offset += field->bytes;
  }
  layout->record_bytes = aligned(offset, 8);
  return abi::kSuccess;
}

void pack(const Layout& layout, const uint8_t* whole, uint8_t* place) {
  for (size_t i = 0; i < layout.places.size(); i++) {
    uint64_t value = 0;
    memcpy(&value, whole + layout.sources[i].offset, layout.sources[i].bytes);
    memcpy(place + layout.places[i].offset, &value, layout.places[i].bytes);
  }
}

LayoutsTold::LayoutsTold(const Layout* layouts, uint32_t kinds)
    : copies_(layouts, layouts + kinds), layouts_(kinds), by_kind_(kinds) {
  for (uint32_t kind = 0; kind < kinds; kind++) {
    if (copies_[kind].record_bytes == 0) continue;
    std::vector<abi::FieldPlace>& places = copies_[kind].places;
    layouts_[kind] = {sizeof(abi::RecordLayout), places.data(), places.size(),
                      copies_[kind].record_bytes};
    by_kind_[kind] = &layouts_[kind];
  }
  static const bool is_silent = has_trap("no_layouts");
  info_ = {sizeof(info_), uint64_t(gettid()), is_silent ? nullptr : by_kind_.data(),
           is_silent ? 0 : kinds};
}

LayoutsTold::~LayoutsTold() {
  for (Layout& copy : copies_) {
    for (abi::FieldPlace& place : copy.places) place = {0, -1, ~size_t{0}, 0, 0};
  }
  for (abi::RecordLayout& layout : layouts_) layout = {0, nullptr, 0, 0};
}

}  // namespace gpu_sim
