// Fails to compile where our idea of NVTX differs from NVIDIA's headers.
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtSync.h>

#include <cstddef>

#include "nvtx/nvtx_abi.h"

namespace ours = pilotlight::nvtx;

static_assert(sizeof(ours::Attributes) == sizeof(nvtxEventAttributes_t));
static_assert(offsetof(ours::Attributes, category) == offsetof(nvtxEventAttributes_t, category));
static_assert(offsetof(ours::Attributes, payload_type) ==
              offsetof(nvtxEventAttributes_t, payloadType));
static_assert(offsetof(ours::Attributes, payload) == offsetof(nvtxEventAttributes_t, payload));
static_assert(offsetof(ours::Attributes, message_type) ==
              offsetof(nvtxEventAttributes_t, messageType));
static_assert(offsetof(ours::Attributes, message) == offsetof(nvtxEventAttributes_t, message));
static_assert(sizeof(ours::ResourceAttributes) == sizeof(nvtxResourceAttributes_t));
static_assert(offsetof(ours::ResourceAttributes, message_type) ==
              offsetof(nvtxResourceAttributes_t, messageType));
static_assert(offsetof(ours::ResourceAttributes, message) ==
              offsetof(nvtxResourceAttributes_t, message));
static_assert(sizeof(ours::SyncAttributes) == sizeof(nvtxSyncUserAttributes_t));
static_assert(offsetof(ours::SyncAttributes, message_type) ==
              offsetof(nvtxSyncUserAttributes_t, messageType));
static_assert(offsetof(ours::SyncAttributes, message) ==
              offsetof(nvtxSyncUserAttributes_t, message));
static_assert(sizeof(ours::CallbackTable) == sizeof(NvtxExportTableCallbacks));
static_assert(int{ours::kCallbackTableId} == NVTX_ETID_CALLBACKS);

#define SAME(mine, theirs) static_assert(static_cast<int>(mine) == static_cast<int>(theirs))
SAME(ours::kAscii, NVTX_MESSAGE_TYPE_ASCII);
SAME(ours::kUnicode, NVTX_MESSAGE_TYPE_UNICODE);
SAME(ours::kRegistered, NVTX_MESSAGE_TYPE_REGISTERED);
SAME(ours::kUint64, NVTX_PAYLOAD_TYPE_UNSIGNED_INT64);
SAME(ours::kInt64, NVTX_PAYLOAD_TYPE_INT64);
SAME(ours::kDouble, NVTX_PAYLOAD_TYPE_DOUBLE);
SAME(ours::kUint32, NVTX_PAYLOAD_TYPE_UNSIGNED_INT32);
SAME(ours::kInt32, NVTX_PAYLOAD_TYPE_INT32);
SAME(ours::kFloat, NVTX_PAYLOAD_TYPE_FLOAT);
SAME(ours::kCore, NVTX_CB_MODULE_CORE);
SAME(ours::kCore2, NVTX_CB_MODULE_CORE2);
SAME(ours::kCoreCalls, NVTX_CBID_CORE_SIZE);
SAME(ours::kCore2Calls, NVTX_CBID_CORE2_SIZE);
SAME(ours::kMarkEx, NVTX_CBID_CORE_MarkEx);
SAME(ours::kRangeStartA, NVTX_CBID_CORE_RangeStartA);
SAME(ours::kRangeEnd, NVTX_CBID_CORE_RangeEnd);
SAME(ours::kRangePushEx, NVTX_CBID_CORE_RangePushEx);
SAME(ours::kRangePop, NVTX_CBID_CORE_RangePop);
SAME(ours::kNameCategoryW, NVTX_CBID_CORE_NameCategoryW);
SAME(ours::kNameOsThreadA, NVTX_CBID_CORE_NameOsThreadA);
SAME(ours::kDomainMarkEx, NVTX_CBID_CORE2_DomainMarkEx);
SAME(ours::kDomainRangeStartEx, NVTX_CBID_CORE2_DomainRangeStartEx);
SAME(ours::kDomainRangeEnd, NVTX_CBID_CORE2_DomainRangeEnd);
SAME(ours::kDomainRangePushEx, NVTX_CBID_CORE2_DomainRangePushEx);
SAME(ours::kDomainRangePop, NVTX_CBID_CORE2_DomainRangePop);
SAME(ours::kDomainNameCategoryA, NVTX_CBID_CORE2_DomainNameCategoryA);
SAME(ours::kDomainRegisterStringA, NVTX_CBID_CORE2_DomainRegisterStringA);
SAME(ours::kDomainRegisterStringW, NVTX_CBID_CORE2_DomainRegisterStringW);
SAME(ours::kDomainCreateA, NVTX_CBID_CORE2_DomainCreateA);
SAME(ours::kDomainDestroy, NVTX_CBID_CORE2_DomainDestroy);
SAME(ours::kDomainResourceCreate, NVTX_CBID_CORE2_DomainResourceCreate);
SAME(ours::kSync, NVTX_CB_MODULE_SYNC);
SAME(ours::kSyncCalls, NVTX_CBID_SYNC_SIZE);
SAME(ours::kDomainSyncUserCreate, NVTX_CBID_SYNC_DomainSyncUserCreate);

int main() {}
