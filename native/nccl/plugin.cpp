// native/nccl/plugin.cpp: libnccl-profiler-pilotlight.so. NCCL loads it (NCCL_PROFILER_PLUGIN) and
// takes the newest table that it knows. All versions come down to the same few functions; none ever
// tells NCCL of a failure.
#include "nccl/collectives.h"
#include "nccl/operation_names.h"

namespace pilotlight::nccl {
namespace {

constexpr const char* kName = "pilotlight";

template <typename D>
Described common(const D& given) noexcept {
  Described described = {};
  described.type = given.type;
  described.parent = given.parent;
  described.rank = given.rank;
  described.peer = -1;
  if (given.type == kProxyOp) described.pid = given.proxy_op.pid;
  return described;
}

template <typename Part>
void take_operation(Described& described, const Part& part) noexcept {
  described.func = part.func;
  described.datatype = part.datatype;
  described.count = part.count;
}

template <typename Part>
void take_call(Described& described, const Part& part) noexcept {
  take_operation(described, part);
  described.is_captured = part.is_captured;
}

template <typename Part>
void take_communicator(Described& described, const Part& part) noexcept {
  described.comm_name = part.name;
  described.comm_hash = part.comm_hash;
}

Described described_of(const DescriptorV1& given) noexcept {
  Described described = common(given);
  if (given.type == kColl) {
    take_communicator(described, given.coll);
    described.func = func_name(given.coll.func);
    described.datatype = datatype_name(given.coll.datatype);
    described.count = given.coll.count;
    described.sequence = given.coll.sequence;
    described.channels = given.coll.channels;
  } else if (given.type == kP2p) {
    take_communicator(described, given.p2p);
    described.func = func_name(given.p2p.func);
    described.datatype = datatype_name(given.p2p.datatype);
    described.count = given.p2p.count;
    described.peer = given.p2p.peer;
  }
  return described;
}

template <typename D>
Described described_with_names(const D& given) noexcept {
  Described described = common(given);
  if (given.type == kColl) {
    take_communicator(described, given.coll);
    take_operation(described, given.coll);
    described.sequence = given.coll.sequence;
    described.channels = given.coll.channels;
  } else if (given.type == kP2p) {
    take_communicator(described, given.p2p);
    take_operation(described, given.p2p);
    described.peer = given.p2p.peer;
  }
  return described;
}
Described described_of(const DescriptorV2& given) noexcept { return described_with_names(given); }
Described described_of(const DescriptorV3& given) noexcept { return described_with_names(given); }

template <typename D>
Described described_with_times(const D& given) noexcept {
  Described described = common(given);
  switch (given.type) {
    case kColl:
      take_operation(described, given.coll);
      described.sequence = given.coll.sequence;
      described.channels = given.coll.channels;
      break;
    case kP2p:
      take_operation(described, given.p2p);
      described.peer = given.p2p.peer;
      described.channels = given.p2p.channels;
      break;
    case kKernelCh:
      described.gpu_ns = given.kernel_ch.gpu_ns;
      break;
    default:
      break;
  }
  return described;
}
Described described_of(const DescriptorV4& given) noexcept { return described_with_times(given); }

Described described_of(const DescriptorV5& given) noexcept {
  Described described = described_with_times(given);
  if (given.type == kCollApi) take_call(described, given.coll_api);
  if (given.type == kP2pApi) take_call(described, given.p2p_api);
  if (given.type == kCeColl) {
    take_operation(described, given.ce_coll);
    described.sequence = given.ce_coll.sequence;
  }
  return described;
}

template <typename D>
int on_start(void* context, void** event, D* given) {
  if (event == nullptr) return kSuccess;
  *event = given != nullptr ? start(context, described_of(*given)) : nullptr;
  return kSuccess;
}

int on_stop(void* event) {
  stop(event);
  return kSuccess;
}

template <bool has_gpu_time>
int on_state(void* event, int number, StateArguments* arguments) {
  state(event, number, arguments, has_gpu_time);
  return kSuccess;
}

int on_finalize(void* context) {
  close_context(context);
  return kSuccess;
}

// v1 to v3 say nothing of the communicator: each event names its own.
template <int version>
int on_init_plain(void** context, int* mask) {
  if (context != nullptr) *context = open_context(version, mask, nullptr, 0, 0, 0);
  return kSuccess;
}

int on_init_v4(void** context, int* mask, const char* name, uint64_t hash, int, int ranks, int rank,
               Logger) {
  if (context != nullptr) *context = open_context(4, mask, name, hash, ranks, rank);
  return kSuccess;
}

template <int version>
int on_init_v5(void** context, uint64_t id, int* mask, const char* name, int, int ranks, int rank,
               Logger) {
  if (context != nullptr) *context = open_context(version, mask, name, id, ranks, rank);
  return kSuccess;
}

}  // namespace
}  // namespace pilotlight::nccl

#define EXPORTED extern "C" __attribute__((visibility("default")))

namespace abi = pilotlight::nccl;

EXPORTED const abi::Plugin<abi::InitV1, abi::DescriptorV1> ncclProfiler_v1 = {
    abi::kName,   abi::on_init_plain<1>, abi::on_start<abi::DescriptorV1>,
    abi::on_stop, abi::on_state<false>,  abi::on_finalize};
EXPORTED const abi::Plugin<abi::InitV1, abi::DescriptorV2> ncclProfiler_v2 = {
    abi::kName,   abi::on_init_plain<2>, abi::on_start<abi::DescriptorV2>,
    abi::on_stop, abi::on_state<false>,  abi::on_finalize};
EXPORTED const abi::Plugin<abi::InitV1, abi::DescriptorV3> ncclProfiler_v3 = {
    abi::kName,   abi::on_init_plain<3>, abi::on_start<abi::DescriptorV3>,
    abi::on_stop, abi::on_state<false>,  abi::on_finalize};
EXPORTED const abi::Plugin<abi::InitV4, abi::DescriptorV4> ncclProfiler_v4 = {
    abi::kName,   abi::on_init_v4,     abi::on_start<abi::DescriptorV4>,
    abi::on_stop, abi::on_state<true>, abi::on_finalize};
EXPORTED const abi::Plugin<abi::InitV5, abi::DescriptorV5> ncclProfiler_v5 = {
    abi::kName,   abi::on_init_v5<5>,  abi::on_start<abi::DescriptorV5>,
    abi::on_stop, abi::on_state<true>, abi::on_finalize};
// v6 only adds kinds of events.
EXPORTED const abi::Plugin<abi::InitV5, abi::DescriptorV5> ncclProfiler_v6 = {
    abi::kName,   abi::on_init_v5<6>,  abi::on_start<abi::DescriptorV5>,
    abi::on_stop, abi::on_state<true>, abi::on_finalize};
