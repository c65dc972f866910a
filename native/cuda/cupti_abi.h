// native/cuda/cupti_abi.h: the part of CUPTI's binary interface that we use, declared by hand: the
// product builds without CUDA headers and runs with CUDA 11.8 to 13.x.
//
// Records grow at their end from version to version, so each structure here is the prefix that all
// of them share. tests/native/test_cupti_abi.py compares it with the real headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pilotlight::cupti {

using Context = void*;
using Subscriber = void*;
using Result = int;

enum : Result {
  kSuccess = 0,
  kInvalidParameter = 1,
  kInvalidOperation = 7,
  kOutOfMemory = 8,
  kMaxLimitReached = 12,
  kNotCompatible = 14,
  kNotInitialized = 15,
  kQueueEmpty = 18,
  kInvalidKind = 21,
  kHardwareBusy = 26,
  kNotSupported = 27,
  kInsufficientPrivileges = 35,
  kMultipleSubscribers = 39,
  kInvalidChip = 46,
  kUnknown = 999,
  // Our own.
  kNoFunctions = 1001,  // this libcupti has no such API
  kNoMetrics = 1002,    // none of our metrics is known on this chip
};

enum Kind : uint32_t {
  kMemcpy = 1,
  kMemset = 2,
  kDriverApi = 4,
  kRuntimeApi = 5,
  kConcurrentKernel = 10,
  kKernel = 3,
  kOverhead = 17,
  kMemcpyPeer = 22,
  kSynchronization = 38,
  kExternalCorrelation = 39,
  kMemory2 = 49,
  kGraphTrace = 51,
};

enum Domain : uint32_t { kDriver = 1, kRuntime = 2, kResource = 3 };

enum Site : uint32_t { kEnter = 0, kExit = 1 };

enum ResourceEvent : uint32_t {
  kContextCreated = 1,
  kContextDestroyStarting = 2,
  kModuleLoaded = 6,
  kModuleUnloadStarting = 7,
  kGraphNodeCreated = 13,
  kGraphNodeDestroyStarting = 14,
  kGraphNodeCloned = 20,
};

enum Attribute : uint32_t {
  kDeviceBufferSize = 0,
  kDeviceBufferPoolLimit = 2,
  kZeroedOutBuffer = 5,
  kPerThreadBuffer = 9,  // from 12.4 on at the latest
  // From 13.3 on.
  kUserDefinedRecords = 11,
  kHardwareEvents = 13,  // CUPTI_ACTIVITY_ATTR_ENABLE_HES
  kWholeGraphs = 20,     // CUPTI_ACTIVITY_ATTR_ENABLE_MULTI_SUBSCRIBER_GRAPH_TRACE
};

constexpr uint32_t kFlushForced = 1;

struct CallbackData {
  Site site;
  const char* function;
  const void* parameters;
  void* result;
  const char* symbol;  // of a kernel launch
  Context context;
  uint32_t context_uid;
  uint64_t* correlation_data;
  uint32_t correlation;
};

struct ResourceData {
  Context context;
  void* handle;
  void* descriptor;
};

struct GraphData {
  void* graph;
  void* original_graph;
  void* node;
  void* original_node;
  uint32_t node_type;
  void* dependency;
  void* graph_exec;
};

struct Activity {
  uint32_t kind;
};

// Packed as the vendor's are: some fields lie on odd words.
#pragma pack(push, 4)
struct KernelRecord {
  uint32_t kind;
  uint8_t unused0[12];
  uint64_t start, end;
  uint64_t completed;
  uint32_t device, context, stream;
  int32_t grid[3], block[3];
  uint8_t unused1[16];
  uint32_t correlation;
  int64_t grid_id;
  const char* name;
  uint64_t reserved;
  uint64_t queued, submitted;
  uint8_t unused2[8];
  uint64_t graph_node;
  uint32_t unused3;
  uint32_t graph;
};

struct MemcpyRecord {
  uint32_t kind;
  uint8_t copy_kind, source_kind, target_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint8_t unused[16];
  uint64_t graph_node;
  uint32_t graph;
};

struct MemcpyPeerRecord {
  uint32_t kind;
  uint8_t copy_kind, source_kind, target_kind, flags;
  uint64_t bytes, start, end;
  uint32_t device, context, stream;
  uint32_t source_device, source_context, target_device, target_context;
  uint32_t correlation;
  uint64_t reserved;
  uint64_t graph_node;
  uint32_t graph;
};

struct MemsetRecord {
  uint32_t kind;
  uint32_t value;
  uint64_t bytes, start, end;
  uint32_t device, context, stream, correlation;
  uint8_t unused[16];
  uint64_t graph_node;
  uint32_t graph;
};

struct SynchronizationRecord {
  uint32_t kind;
  uint32_t type;  // 1 event, 2 stream waits for event, 3 stream, 4 context
  uint64_t start, end;
  uint32_t correlation, context, stream, event;
};

struct GraphTraceRecord {
  uint32_t kind;
  uint32_t correlation;
  uint64_t start, end;
  uint32_t device, graph, context, stream;
};

struct OverheadRecord {
  uint32_t kind;
  uint32_t overhead;
  uint32_t object;
  uint8_t object_id[12];
  uint64_t start, end;
};

struct MemoryRecord {
  uint32_t kind;
  uint32_t operation;  // 1 allocation, 2 release
  uint32_t memory;
  uint32_t correlation;
  uint64_t address, bytes, time, counter;
  uint32_t process, device, context, stream;
};

struct ExternalRecord {
  uint32_t kind;
  uint32_t external_kind;
  uint64_t external_id;
  uint32_t correlation;
  uint32_t reserved;
};
#pragma pack(pop)

static_assert(sizeof(ExternalRecord) == 24);

static_assert(offsetof(KernelRecord, start) == 16 && offsetof(KernelRecord, device) == 40);
static_assert(offsetof(KernelRecord, correlation) == 92 && offsetof(KernelRecord, name) == 104);
static_assert(offsetof(KernelRecord, queued) == 120 && offsetof(KernelRecord, graph_node) == 144);
static_assert(offsetof(KernelRecord, graph) == 156 && sizeof(KernelRecord) == 160);
static_assert(offsetof(MemcpyRecord, correlation) == 44 && offsetof(MemcpyRecord, graph) == 72);
static_assert(offsetof(MemcpyPeerRecord, correlation) == 60);
static_assert(offsetof(MemcpyPeerRecord, graph_node) == 72);
static_assert(offsetof(MemsetRecord, graph_node) == 64 && offsetof(MemsetRecord, graph) == 72);
static_assert(sizeof(SynchronizationRecord) == 40 && sizeof(GraphTraceRecord) == 40);
static_assert(offsetof(OverheadRecord, start) == 24 && offsetof(MemoryRecord, stream) == 60);
static_assert(sizeof(CallbackData) == 72 && sizeof(ResourceData) == 24 && sizeof(GraphData) == 56);

using Callback = void (*)(void* user, uint32_t domain, uint32_t id, const void* data);
using RequestBuffer = void (*)(uint8_t** buffer, size_t* bytes, size_t* most_records);
using CompleteBuffer = void (*)(Context context, uint32_t stream, uint8_t* buffer, size_t bytes,
                                size_t valid_bytes);
// Of V2: a buffer comes with a CompleteInfo.
using RequestBuffer2 = void (*)(uint8_t** buffer, size_t* bytes, size_t* most_records, void* info);
using CompleteBuffer2 = void (*)(uint8_t* buffer, size_t bytes, size_t valid_bytes, void* info);

struct SubscriberParams {
  size_t struct_bytes;
  const char* name;
  char* old_name;
  size_t old_name_bytes;
  uint8_t allow_multiple;
  uint8_t padding[7];
};
static_assert(sizeof(SubscriberParams) == 40);

}  // namespace pilotlight::cupti
