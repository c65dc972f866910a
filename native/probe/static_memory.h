// native/probe/static_memory.h: the variables of a loaded library, which stay mapped as long as it
// does, so that this process can read them without a system call.
#pragma once

#include <link.h>

#include <cstdint>

namespace pilotlight {

class StaticMemory {
 public:
  // Finds the part of a library that holds this address; none: has() is never true.
  void find(uint64_t address) noexcept {
    from_ = address;
    bytes_ = 0;
    dl_iterate_phdr(look, this);
  }

  bool has(uint64_t address, uint64_t bytes) const noexcept {
    return address >= from_ && address - from_ < bytes_ && bytes <= bytes_ - (address - from_);
  }

  // Others write there meanwhile: each load is one word as it was at some moment, in order.
  static uint64_t load(uint64_t address) noexcept {
    return __atomic_load_n(reinterpret_cast<const uint64_t*>(address), __ATOMIC_ACQUIRE);
  }

 private:
  static int look(dl_phdr_info* library, size_t, void* self) noexcept {
    auto* memory = static_cast<StaticMemory*>(self);
    for (uint32_t i = 0; i < library->dlpi_phnum; i++) {
      const auto& part = library->dlpi_phdr[i];
      uint64_t from = library->dlpi_addr + part.p_vaddr;
      if (part.p_type != PT_LOAD || memory->from_ < from) continue;
      if (memory->from_ - from >= part.p_memsz) continue;
      memory->from_ = from;
      memory->bytes_ = part.p_memsz;
      return 1;
    }
    return 0;
  }

  uint64_t from_ = 0;
  uint64_t bytes_ = 0;
};

}  // namespace pilotlight
