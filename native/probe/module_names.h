// native/probe/module_names.h: what the modules of a model are called, by their address.
#pragma once

#include <cstdint>

namespace pilotlight {

// A fixed table: a program that makes modules without end fills it, and the rest go by their type.
class ModuleNames {
 public:
  // The name's id; 0 if it has none.
  uint32_t find(const void* module) const noexcept {
    for (uint32_t i = 0, place = hash(module); i < kReach; i++, place = (place + 1) & (kSize - 1)) {
      if (entries_[place].module == module) return entries_[place].name;
      if (entries_[place].module == nullptr) return 0;
    }
    return 0;
  }

  void set(const void* module, uint32_t name) noexcept {
    Entry* free = nullptr;
    for (uint32_t i = 0, place = hash(module); i < kReach; i++, place = (place + 1) & (kSize - 1)) {
      Entry& entry = entries_[place];
      if (entry.module == module) {
        entry.name = name;
        return;
      }
      if (free == nullptr && entry.name == 0) free = &entry;
      if (entry.module == nullptr) break;
    }
    if (free != nullptr) *free = {module, name};
  }

  // The place stays taken until another module needs it.
  void forget(const void* module) noexcept {
    if (find(module) != 0) set(module, 0);
  }

  void clear() noexcept {
    for (Entry& entry : entries_) entry = {};
  }

 private:
  struct Entry {
    const void* module;
    uint32_t name;
  };
  static constexpr uint32_t kSize = 16384;
  static constexpr uint32_t kReach = 64;

  static uint32_t hash(const void* module) noexcept {
    auto address = reinterpret_cast<uintptr_t>(module);
    return static_cast<uint32_t>(address * 0x9e3779b97f4a7c15ull >> 50);
  }

  Entry entries_[kSize] = {};
};

}  // namespace pilotlight
