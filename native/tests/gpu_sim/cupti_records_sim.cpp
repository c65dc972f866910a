// native/tests/gpu_sim/cupti_records_sim.cpp: the activity records of the simulated CUPTI, as long
// as those of its version.
#include "cupti_sim.h"

namespace abi = pilotlight::cupti;

namespace gpu_sim {

size_t size_of(uint32_t kind) {
  switch (kind) {
    case abi::kKernel:
    case abi::kConcurrentKernel:
      return kVersion >= 130400 ? 240 : kVersion >= 130100 ? 224 : kVersion >= 130000 ? 216 : 208;
    case abi::kMemcpy:
      return kVersion >= 130000 ? 96 : 88;
    case abi::kMemcpyPeer:
      return kVersion >= 130000 ? 104 : 96;
    case abi::kMemset:
      return 88;
    case abi::kSynchronization:
      return kVersion >= 28 ? 56 : 40;
    case abi::kGraphTrace:
      return kVersion >= 28 ? 56 : 48;
    case abi::kOverhead:
      return kVersion >= 28 ? 56 : 40;
    case abi::kMemory2:
      return kVersion >= 130000 ? 128 : 120;
    case abi::kDriverApi:
    case abi::kRuntimeApi:
      return 40;
    case abi::kExternalCorrelation:
      return sizeof(abi::ExternalRecord);
    default:
      return 0;
  }
}

uint32_t kind_of(const Work& work) {
  switch (work.kind) {
    case gpu_sim::kKernel:
      return abi::kConcurrentKernel;
    case gpu_sim::kCopy:
      return abi::kMemcpy;
    case gpu_sim::kPeerCopy:
      return abi::kMemcpyPeer;
    case gpu_sim::kSet:
      return abi::kMemset;
    case gpu_sim::kSync:
      return abi::kSynchronization;
    case gpu_sim::kGraph:
      return abi::kGraphTrace;
    case gpu_sim::kOwn:
      return abi::kOverhead;
    case gpu_sim::kExternal:
      return abi::kExternalCorrelation;
    case gpu_sim::kCall:
      return work.sync_type == abi::kDriver ? abi::kDriverApi : abi::kRuntimeApi;
    default:
      return abi::kMemory2;
  }
}

namespace {

template <typename T>
T* put(uint8_t* place, uint32_t kind) {
  auto* record = reinterpret_cast<T*>(place);
  record->kind = kind;
  return record;
}

// What every record of work on a stream has.
template <typename T>
T* put_work(uint8_t* place, uint32_t kind, const Work& work) {
  T* record = put<T>(place, kind);
  record->start = told_time(work.start_ns);
  record->end = told_time(work.end_ns);
  record->context = work.context;
  record->stream = work.stream;
  record->correlation = work.correlation;
  return record;
}

// The same where it says its device.
template <typename T>
T* put_device_work(uint8_t* place, uint32_t kind, const Work& work) {
  T* record = put_work<T>(place, kind, work);
  record->device = work.device;
  return record;
}

}  // namespace

void write_record(uint8_t* place, uint32_t kind, const Work& work) {
  switch (kind) {
    case abi::kConcurrentKernel: {
      auto* r = put_device_work<abi::KernelRecord>(place, kind, work);
      r->completed = r->end;
      r->grid[0] = r->block[0] = 1;
      r->name = work.name;
      r->graph_node = work.graph_node;
      r->graph = work.graph;
      return;
    }
    case abi::kMemcpy: {
      auto* r = put_device_work<abi::MemcpyRecord>(place, kind, work);
      r->copy_kind = uint8_t(work.copy_kind);
      r->source_kind = work.copy_kind == 1 ? 1 : 3;
      r->target_kind = work.copy_kind == 2 ? 1 : 3;
      r->bytes = work.bytes;
      r->graph_node = work.graph_node;
      r->graph = work.graph;
      return;
    }
    case abi::kMemcpyPeer: {
      auto* r = put_device_work<abi::MemcpyPeerRecord>(place, kind, work);
      r->copy_kind = 10;
      r->source_kind = r->target_kind = 3;
      r->bytes = work.bytes;
      return;
    }
    case abi::kMemset: {
      auto* r = put_device_work<abi::MemsetRecord>(place, kind, work);
      r->bytes = work.bytes;
      r->graph_node = work.graph_node;
      r->graph = work.graph;
      return;
    }
    case abi::kSynchronization: {
      auto* r = put_work<abi::SynchronizationRecord>(place, kind, work);
      r->type = work.sync_type;
      return;
    }
    case abi::kGraphTrace: {
      auto* r = put_device_work<abi::GraphTraceRecord>(place, kind, work);
      r->graph = work.graph;
      return;
    }
    case abi::kOverhead: {
      auto* r = put<abi::OverheadRecord>(place, kind);
      r->overhead = work.copy_kind << 16;
      r->object = 1;
      r->start = told_time(work.start_ns);
      r->end = told_time(work.end_ns);
      return;
    }
    case abi::kExternalCorrelation: {
      auto* r = put<abi::ExternalRecord>(place, kind);
      r->external_kind = work.copy_kind;
      r->external_id = work.bytes;
      r->correlation = work.correlation;
      return;
    }
    case abi::kDriverApi:
    case abi::kRuntimeApi:
      put<abi::Activity>(place, kind);
      return;
    default: {
      auto* r = put<abi::MemoryRecord>(place, kind);
      r->operation = work.kind == gpu_sim::kFree ? 2 : 1;
      r->address = work.address;
      r->bytes = work.bytes;
      r->time = told_time(work.start_ns);
      r->device = work.device;
      r->context = work.context;
      r->stream = work.stream;
      r->correlation = work.correlation;
    }
  }
}

}  // namespace gpu_sim
