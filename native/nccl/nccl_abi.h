// native/nccl/nccl_abi.h: the six versions of NCCL's profiler interface, as far as a plugin sees
// them. Compared with NCCL's own headers by native/tests/nccl/layout.cpp.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>

namespace pilotlight::nccl {

constexpr int kSuccess = 0;

enum EventType : uint64_t {
  kGroup = 1 << 0,
  kColl = 1 << 1,
  kP2p = 1 << 2,
  kProxyOp = 1 << 3,
  kProxyStep = 1 << 4,
  kProxyCtrl = 1 << 5,
  kKernelCh = 1 << 6,
  kNetPlugin = 1 << 7,
  kGroupApi = 1 << 8,
  kCollApi = 1 << 9,
  kP2pApi = 1 << 10,
  kKernelLaunch = 1 << 11,
  kCeColl = 1 << 12,
  kCeSync = 1 << 13,
  kCeBatch = 1 << 14,
};

enum State : int {
  kStepSendGpuWait = 8,
  kStepSendWait = 9,
  kStepRecvWait = 10,
  kStepRecvFlushWait = 11,
  kStepRecvGpuWait = 12,
  kStepSendPeerWait = 20,
  kKernelChStop = 22,
};

// v1: numbers where later versions have texts.
struct CollV1 {
  const char* name;
  uint64_t comm_hash;
  uint64_t sequence;
  uint8_t func;
  const void* send;
  void* recv;
  size_t count;
  int root;
  uint8_t datatype;
  uint32_t op;
  size_t traffic_bytes;
  uint8_t channels;
  uint8_t warps;
  uint8_t algo;
  uint8_t proto;
  int is_collnet;
  int is_nvls;
};
struct P2pV1 {
  const char* name;
  uint64_t comm_hash;
  uint8_t func;
  void* buffer;
  uint8_t datatype;
  size_t count;
  int peer;
};

struct CollV2 {
  const char* name;
  uint64_t comm_hash;
  uint64_t sequence;
  const char* func;
  const void* send;
  void* recv;
  size_t count;
  int root;
  const char* datatype;
  size_t traffic_bytes;
  uint8_t channels;
  uint8_t warps;
  const char* algo;
  const char* proto;
};
struct P2pV2 {
  const char* name;
  uint64_t comm_hash;
  const char* func;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
};

struct CollV3 {
  const char* name;
  uint64_t comm_hash;
  uint64_t sequence;
  const char* func;
  const void* send;
  void* recv;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels;
  uint8_t warps;
  const char* algo;
  const char* proto;
};

struct CollV4 {
  uint64_t sequence;
  const char* func;
  const void* send;
  void* recv;
  size_t count;
  int root;
  const char* datatype;
  uint8_t channels;
  uint8_t warps;
  const char* algo;
  const char* proto;
  void* parent_group;  // from v5 on
};
struct P2pV4 {
  const char* func;
  void* buffer;
  const char* datatype;
  size_t count;
  int peer;
  uint8_t channels;
  void* parent_group;  // from v5 on
};

struct ProxyOp {
  pid_t pid;
  uint8_t channel;
  int peer;
  int steps;
  int chunk_bytes;
  int is_send;
};
struct ProxyStep {
  int step;
};
struct KernelCh {
  uint8_t channel;
  uint64_t gpu_ns;  // from v4 on
};

struct CollApi {
  const char* func;
  size_t count;
  const char* datatype;
  int root;
  void* stream;
  bool is_captured;
};
struct P2pApi {
  const char* func;
  size_t count;
  const char* datatype;
  void* stream;
  bool is_captured;
};
struct CeColl {
  uint64_t sequence;
  const char* func;
  const void* send;
  void* recv;
  size_t count;
  int root;
  const char* datatype;
  const char* sync_strategy;
  bool has_batch_sync;
  uint32_t batch_size;
  uint32_t batches;
  uint32_t ce_sequence;
  void* stream;
};

template <typename Type, typename Coll, typename P2p>
struct Descriptor {
  Type type;
  void* parent;
  int rank;
  union {
    Coll coll;
    P2p p2p;
    ProxyOp proxy_op;
    ProxyStep proxy_step;
    KernelCh kernel_ch;
    CollApi coll_api;
    P2pApi p2p_api;
    CeColl ce_coll;
  };
};

using DescriptorV1 = Descriptor<uint8_t, CollV1, P2pV1>;
using DescriptorV2 = Descriptor<uint8_t, CollV2, P2pV2>;
using DescriptorV3 = Descriptor<uint8_t, CollV3, P2pV2>;
using DescriptorV4 = Descriptor<uint8_t, CollV4, P2pV4>;
using DescriptorV5 = Descriptor<uint64_t, CollV4, P2pV4>;

union StateArguments {
  struct {
    size_t bytes;
  } step;
  struct {
    uint64_t gpu_ns;
  } kernel_ch;
};

using Logger = void (*)(int level, unsigned long flags, const char* file, int line,
                        const char* format, ...);
using InitV1 = int(void** context, int* mask);
using InitV4 = int(void** context, int* mask, const char* name, uint64_t hash, int nodes, int ranks,
                   int rank, Logger log);
using InitV5 = int(void** context, uint64_t id, int* mask, const char* name, int nodes, int ranks,
                   int rank, Logger log);

// The symbol ncclProfiler_vN.
template <typename Init, typename Described>
struct Plugin {
  const char* name;
  Init* init;
  int (*start)(void* context, void** event, Described* descriptor);
  int (*stop)(void* event);
  int (*state)(void* event, int state, StateArguments* arguments);
  int (*finalize)(void* context);
};

}  // namespace pilotlight::nccl
