// native/nccl/operation_names.h: what operations, types and communicators are called in records.
#pragma once

#include "nccl/described.h"
#include "provider/provider_api.h"

namespace pilotlight::nccl {

// NCCL's texts are constants: their places tell them apart.
struct Named {
  const char* func;
  const char* datatype;
  int peer;
  uint32_t run;
  uint32_t name, dtype;  // ids of definitions
};

const Named& names_of(const ProviderApi& probe, const Described& described) noexcept;
uint32_t group_id(const ProviderApi& probe, const char* name, uint64_t hash) noexcept;
size_t datatype_bytes(const char* name) noexcept;
const char* func_name(uint8_t number) noexcept;      // of v1
const char* datatype_name(uint8_t number) noexcept;  // of v1

}  // namespace pilotlight::nccl
