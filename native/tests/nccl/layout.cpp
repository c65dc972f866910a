// Fails to compile where our idea of NCCL's profiler interface differs from NCCL's own headers:
//   c++ -std=c++17 -fsyntax-only -Inative -I NCCL/src/include/plugin -I
//   NCCL/plugins/profiler/example/nccl
#include <cstddef>
#include <cstdint>

#include "nccl/nccl_abi.h"

using ncclPid_t = pid_t;
typedef enum { ncclSuccess = 0 } ncclResult_t;
typedef void (*ncclDebugLogger_t)(int, unsigned long, const char*, int, const char*, ...);
#define NCCL_OS_H_
#define NCCL_OS_LINUX_H_
#include "nccl_profiler.h"

namespace ours = pilotlight::nccl;

#define PLACE(version, mine, theirs)                          \
  static_assert(offsetof(ours::DescriptorV##version, mine) == \
                offsetof(ncclProfilerEventDescr_v##version##_t, theirs))
#define COMMON(version)                             \
  PLACE(version, type, type);                       \
  PLACE(version, parent, parentObj);                \
  PLACE(version, rank, rank);                       \
  PLACE(version, coll.sequence, coll.seqNumber);    \
  PLACE(version, coll.func, coll.func);             \
  PLACE(version, coll.count, coll.count);           \
  PLACE(version, coll.datatype, coll.datatype);     \
  PLACE(version, p2p.func, p2p.func);               \
  PLACE(version, p2p.datatype, p2p.datatype);       \
  PLACE(version, p2p.count, p2p.count);             \
  PLACE(version, p2p.peer, p2p.peer);               \
  PLACE(version, proxy_op.pid, proxyOp.pid);        \
  PLACE(version, proxy_op.is_send, proxyOp.isSend); \
  PLACE(version, proxy_step.step, proxyStep.step)

COMMON(1);
COMMON(2);
COMMON(3);
COMMON(4);
COMMON(5);
PLACE(1, coll.comm_hash, coll.commHash);
PLACE(1, coll.channels, coll.nMaxChannels);
PLACE(1, p2p.comm_hash, p2p.commHash);
PLACE(2, coll.comm_hash, coll.commHash);
PLACE(2, coll.channels, coll.nMaxChannels);
PLACE(3, coll.comm_hash, coll.commHash);
PLACE(3, coll.channels, coll.nMaxChannels);
PLACE(3, kernel_ch.channel, kernelCh.channelId);
PLACE(4, coll.channels, coll.nChannels);
PLACE(4, p2p.channels, p2p.nChannels);
PLACE(4, kernel_ch.gpu_ns, kernelCh.pTimer);
PLACE(5, coll.channels, coll.nChannels);
PLACE(5, coll.parent_group, coll.parentGroup);
PLACE(5, p2p.channels, p2p.nChannels);
PLACE(5, p2p.parent_group, p2p.parentGroup);
PLACE(5, kernel_ch.gpu_ns, kernelCh.pTimer);
PLACE(5, coll_api.func, collApi.func);
PLACE(5, coll_api.count, collApi.count);
PLACE(5, coll_api.datatype, collApi.datatype);
PLACE(5, p2p_api.func, p2pApi.func);
PLACE(5, p2p_api.datatype, p2pApi.datatype);

#define SIXTH(mine, theirs) \
  static_assert(offsetof(ours::DescriptorV5, mine) == offsetof(ncclProfilerEventDescr_v6_t, theirs))
SIXTH(coll.sequence, coll.seqNumber);
SIXTH(coll.channels, coll.nChannels);
SIXTH(p2p.peer, p2p.peer);
SIXTH(proxy_op.pid, proxyOp.pid);
SIXTH(kernel_ch.gpu_ns, kernelCh.pTimer);
SIXTH(coll_api.datatype, collApi.datatype);
SIXTH(ce_coll.sequence, ceColl.seqNumber);
SIXTH(ce_coll.func, ceColl.func);
SIXTH(ce_coll.count, ceColl.count);
SIXTH(ce_coll.datatype, ceColl.datatype);

static_assert(sizeof(ours::Plugin<ours::InitV5, ours::DescriptorV5>) == sizeof(ncclProfiler_v6_t));
static_assert(sizeof(ours::Plugin<ours::InitV1, ours::DescriptorV1>) == sizeof(ncclProfiler_v1_t));
static_assert(offsetof(ncclProfiler_v6_t, recordEventState) ==
              offsetof(decltype(ours::Plugin<ours::InitV5, ours::DescriptorV5>()), state));
static_assert(int{ours::kKernelCh} == ncclProfileKernelCh &&
              int{ours::kCollApi} == ncclProfileCollApi &&
              int{ours::kCeColl} == ncclProfileCeColl &&
              int{ours::kProxyStep} == ncclProfileProxyStep);
static_assert(int{ours::kKernelChStop} == ncclProfilerKernelChStop &&
              int{ours::kStepRecvWait} == ncclProfilerProxyStepRecvWait &&
              int{ours::kStepSendPeerWait} == ncclProfilerProxyStepSendPeerWait_v4);

int main() {}
