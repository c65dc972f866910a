// native/nccl/operation_names.cpp
#include "nccl/operation_names.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "nccl/events.h"

namespace pilotlight::nccl {
namespace {

// "ncclFloat32" as "float32".
uint32_t dtype_id(const ProviderApi& probe, const char* name) noexcept {
  if (name == nullptr) return 0;
  char text[32] = {};
  if (strncmp(name, "nccl", 4) == 0) name += 4;
  size_t length = strnlen(name, sizeof(text));
  for (size_t i = 0; i < length; i++) text[i] = static_cast<char>(tolower(name[i]));
  return probe.string(text, length);
}

uint32_t make_operation_id(const ProviderApi& probe, const Described& described) noexcept {
  char text[96];
  const char* name = described.func != nullptr ? described.func : "unknown";
  int bytes = snprintf(text, sizeof(text), "%.48s", name);
  bool is_p2p = described.type == kP2p;
  if (is_p2p && described.peer >= 0 && described.peer < static_cast<int>(kNamedPeers)) {
    const char* way = strncmp(name, "Recv", 4) == 0 ? "from" : "to";
    bytes = snprintf(text, sizeof(text), "%.48s %s %d", name, way, described.peer);
  }
  return probe.string(text, static_cast<size_t>(bytes));
}

thread_local Named cache[32];

}  // namespace

const Named& names_of(const ProviderApi& probe, const Described& described) noexcept {
  uint32_t run = probe.run->load(std::memory_order_relaxed);
  auto mixed = reinterpret_cast<uintptr_t>(described.func) * 31 +
               reinterpret_cast<uintptr_t>(described.datatype) +
               static_cast<uintptr_t>(described.peer);
  Named& place = cache[(mixed >> 3 ^ mixed) % 32];
  if (place.name == 0 || place.func != described.func || place.run != run ||
      place.datatype != described.datatype || place.peer != described.peer) {
    place = {described.func,
             described.datatype,
             described.peer,
             run,
             make_operation_id(probe, described),
             dtype_id(probe, described.datatype)};
  }
  return place;
}

uint32_t group_id(const ProviderApi& probe, const char* name, uint64_t hash) noexcept {
  char text[96];
  const char* shown = name != nullptr && name[0] != 0 ? name : "comm";
  int bytes = snprintf(text, sizeof(text), "%.64s %016lx", shown, static_cast<unsigned long>(hash));
  return probe.string(text, static_cast<size_t>(bytes));
}

size_t datatype_bytes(const char* name) noexcept {
  if (name == nullptr) return 0;
  if (strstr(name, "64") != nullptr) return 8;
  if (strstr(name, "32") != nullptr) return 4;
  if (strstr(name, "16") != nullptr || strstr(name, "Half") != nullptr) return 2;
  return 1;  // int8, uint8, the float8s
}

const char* func_name(uint8_t number) noexcept {
  static const char* const names[] = {"Broadcast", "Reduce",   "AllGather", "ReduceScatter",
                                      "AllReduce", "SendRecv", "Send",      "Recv"};
  return number < sizeof(names) / sizeof(*names) ? names[number] : "unknown";
}

const char* datatype_name(uint8_t number) noexcept {
  static const char* const names[] = {"int8",    "uint8",    "int32",      "uint32",
                                      "int64",   "uint64",   "float16",    "float32",
                                      "float64", "bfloat16", "float8e4m3", "float8e5m2"};
  return number < sizeof(names) / sizeof(*names) ? names[number] : "unknown";
}

}  // namespace pilotlight::nccl
