// native/cuda/led_calls.cpp
#include "cuda/led_calls.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>

namespace pilotlight::cupti {
namespace {

#if defined(__aarch64__)
constexpr uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT, kData = R_AARCH64_GLOB_DAT;
#else
constexpr uint32_t kJumpSlot = R_X86_64_JUMP_SLOT, kData = R_X86_64_GLOB_DAT;
#endif

struct Tables {
  const ElfW(Sym) * symbols;
  const char* texts;
  size_t text_bytes;
};

void replace(ElfW(Addr) slot, void* function) noexcept {
  auto* place = reinterpret_cast<void**>(slot);
  if (*place == function) return;
  auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* start = reinterpret_cast<void*>(slot & ~(page - 1));
  // Read-only after loading in most libraries. It stays writable: which it was is not known.
  if (mprotect(start, page, PROT_READ | PROT_WRITE) != 0) return;
  __atomic_store_n(place, function, __ATOMIC_RELEASE);
}

void look_through(const ElfW(Rela) * relocations, size_t bytes, ElfW(Addr) base,
                  const Tables& tables, const LedCalls& calls) noexcept {
  for (size_t i = 0; i < bytes / sizeof(ElfW(Rela)); i++) {
    auto type = static_cast<uint32_t>(ELF64_R_TYPE(relocations[i].r_info));
    if (type != kJumpSlot && type != kData) continue;
    const ElfW(Sym) & symbol = tables.symbols[ELF64_R_SYM(relocations[i].r_info)];
    if (symbol.st_name >= tables.text_bytes) continue;
    const char* name = tables.texts + symbol.st_name;
    if (strncmp(name, "cupti", 5) != 0) continue;
    for (size_t call = 0; call < calls.count; call++) {
      if (strcmp(name, calls.first[call].name) == 0) {
        replace(base + relocations[i].r_offset, calls.first[call].ours);
      }
    }
  }
}

int look_at(dl_phdr_info* info, size_t, void* data) noexcept {
  const auto& led = *static_cast<const LedCalls*>(data);
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) & header = info->dlpi_phdr[i];
    auto start = info->dlpi_addr + header.p_vaddr;
    auto here = reinterpret_cast<ElfW(Addr)>(led.first[0].ours);
    if (header.p_type == PT_LOAD && here >= start && here < start + header.p_memsz) return 0;
    if (header.p_type == PT_DYNAMIC) dynamic = reinterpret_cast<const ElfW(Dyn)*>(start);
  }
  const char* name = strrchr(info->dlpi_name, '/');
  if (dynamic == nullptr || (name != nullptr && strncmp(name, "/libcupti.so", 12) == 0)) return 0;
  Tables tables = {};
  const ElfW(Rela)* calls = nullptr;
  const ElfW(Rela)* others = nullptr;
  size_t call_bytes = 0, other_bytes = 0;
  for (; dynamic->d_tag != DT_NULL; dynamic++) {
    switch (dynamic->d_tag) {
      case DT_SYMTAB:
        tables.symbols = reinterpret_cast<const ElfW(Sym)*>(dynamic->d_un.d_ptr);
        break;
      case DT_STRTAB:
        tables.texts = reinterpret_cast<const char*>(dynamic->d_un.d_ptr);
        break;
      case DT_STRSZ:
        tables.text_bytes = dynamic->d_un.d_val;
        break;
      case DT_JMPREL:
        calls = reinterpret_cast<const ElfW(Rela)*>(dynamic->d_un.d_ptr);
        break;
      case DT_PLTRELSZ:
        call_bytes = dynamic->d_un.d_val;
        break;
      case DT_RELA:
        others = reinterpret_cast<const ElfW(Rela)*>(dynamic->d_un.d_ptr);
        break;
      case DT_RELASZ:
        other_bytes = dynamic->d_un.d_val;
        break;
      default:
        break;
    }
  }
  // The kernel's own page (vdso) has addresses that are not relocated.
  if (tables.symbols == nullptr || tables.texts == nullptr ||
      reinterpret_cast<ElfW(Addr)>(tables.texts) < info->dlpi_addr) {
    return 0;
  }
  if (calls != nullptr) look_through(calls, call_bytes, info->dlpi_addr, tables, led);
  if (others != nullptr) look_through(others, other_bytes, info->dlpi_addr, tables, led);
  return 0;
}

struct Protection {
  ElfW(Addr) address;
  int flags;  // as the loader set them; -1: not found
};

int look_for_protection(dl_phdr_info* info, size_t, void* data) noexcept {
  auto* wanted = static_cast<Protection*>(data);
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) & header = info->dlpi_phdr[i];
    auto start = info->dlpi_addr + header.p_vaddr;
    if (header.p_type != PT_LOAD || wanted->address < start ||
        wanted->address >= start + header.p_memsz) {
      continue;
    }
    wanted->flags = ((header.p_flags & PF_R) != 0 ? PROT_READ : 0) |
                    ((header.p_flags & PF_W) != 0 ? PROT_WRITE : 0) |
                    ((header.p_flags & PF_X) != 0 ? PROT_EXEC : 0);
    return 1;
  }
  return 0;
}

}  // namespace

void lead_imports(const LedCalls& calls) noexcept {
  if (calls.count > 0) dl_iterate_phdr(look_at, const_cast<LedCalls*>(&calls));
}

void lead_lookups(const LedCall& call) noexcept {
  Dl_info info = {};
  void* entry = nullptr;
  if (dladdr1(call.real, &info, &entry, RTLD_DL_SYMENT) == 0) return;
  // Another name for the same address, which nobody looks up.
  if (entry == nullptr || info.dli_sname == nullptr || strcmp(info.dli_sname, call.name) != 0) {
    return;
  }
  auto* value = &static_cast<ElfW(Sym)*>(entry)->st_value;
  auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* start = reinterpret_cast<void*>(reinterpret_cast<size_t>(value) & ~(page - 1));
  // In libraries of older linkers code may lie in the same page: it stays executable all the time.
  Protection before = {reinterpret_cast<ElfW(Addr)>(value), -1};
  dl_iterate_phdr(look_for_protection, &before);
  if (before.flags < 0 || mprotect(start, page, before.flags | PROT_WRITE) != 0) return;
  auto base = reinterpret_cast<ElfW(Addr)>(call.real) - *value;
  __atomic_store_n(value, reinterpret_cast<ElfW(Addr)>(call.ours) - base, __ATOMIC_RELEASE);
  mprotect(start, page, before.flags);
}

}  // namespace pilotlight::cupti
