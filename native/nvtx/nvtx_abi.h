// native/nvtx/nvtx_abi.h: what of NVTX 3 an injection library sees. The numbers and layouts are
// compared with NVIDIA's own headers by tests/native/test_nvtx.py; none of them is needed to build.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pilotlight::nvtx {

struct DomainHandle;
struct StringHandle;
using RangeId = uint64_t;

enum MessageType : int32_t { kNoMessage = 0, kAscii = 1, kUnicode = 2, kRegistered = 3 };

enum PayloadType : int32_t {
  kNoPayload = 0,
  kUint64 = 1,
  kInt64 = 2,
  kDouble = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat = 6,
};

struct Attributes {
  uint16_t version;
  uint16_t size;  // of the struct that the program was compiled with
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type;
  int32_t reserved;
  union {
    uint64_t u64;
    int64_t i64;
    double f64;
    uint32_t u32;
    int32_t i32;
    float f32;
  } payload;
  int32_t message_type;
  union {
    const char* ascii;
    const wchar_t* unicode;
    StringHandle* registered;
  } message;
};
static_assert(sizeof(Attributes) == 48);

// Of these only the message is looked at.
struct ResourceAttributes {
  uint16_t version;
  uint16_t size;
  int32_t identifier_type;
  uint64_t identifier;
  int32_t message_type;
  union {
    const char* ascii;
    StringHandle* registered;
  } message;
};
static_assert(sizeof(ResourceAttributes) == 32);

struct SyncAttributes {
  uint16_t version;
  uint16_t size;
  int32_t message_type;
  union {
    const char* ascii;
    StringHandle* registered;
  } message;
};
static_assert(sizeof(SyncAttributes) == 16);

enum Module : int { kCore = 1, kCore2 = 5, kSync = 6 };

enum CoreCall : uint32_t {
  kMarkEx = 1,
  kMarkA = 2,
  kMarkW = 3,
  kRangeStartEx = 4,
  kRangeStartA = 5,
  kRangeStartW = 6,
  kRangeEnd = 7,
  kRangePushEx = 8,
  kRangePushA = 9,
  kRangePushW = 10,
  kRangePop = 11,
  kNameCategoryA = 12,
  kNameCategoryW = 13,
  kNameOsThreadA = 14,
  kNameOsThreadW = 15,
  kCoreCalls = 16,
};

enum Core2Call : uint32_t {
  kDomainMarkEx = 1,
  kDomainRangeStartEx = 2,
  kDomainRangeEnd = 3,
  kDomainRangePushEx = 4,
  kDomainRangePop = 5,
  kDomainResourceCreate = 6,
  kDomainNameCategoryA = 8,
  kDomainNameCategoryW = 9,
  kDomainRegisterStringA = 10,
  kDomainRegisterStringW = 11,
  kDomainCreateA = 12,
  kDomainCreateW = 13,
  kDomainDestroy = 14,
  kCore2Calls = 16,
};

enum SyncCall : uint32_t {
  kDomainSyncUserCreate = 1,
  kSyncCalls = 7,
};

using Function = void (*)();
using FunctionTable = Function**;

struct CallbackTable {
  size_t struct_size;
  int (*module_functions)(int module, FunctionTable* table, unsigned int* size);
};

constexpr uint32_t kCallbackTableId = 1;
using GetExportTable = const void* (*)(uint32_t id);
using Initialize = int (*)(GetExportTable);

}  // namespace pilotlight::nvtx
