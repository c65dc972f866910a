// native/cuda/neighbours.cpp
#include "cuda/neighbours.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>

#include "cuda/collector.h"

namespace pilotlight::cupti {
namespace {

#if defined(__aarch64__)
constexpr uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT, kData = R_AARCH64_GLOB_DAT;
#else
constexpr uint32_t kJumpSlot = R_X86_64_JUMP_SLOT, kData = R_X86_64_GLOB_DAT;
#endif

std::atomic<int> subscribers{0};
std::atomic<uint64_t> kinds{0};  // enabled by others, a bit each

// The function that the caller meant, in the library that we use too.
template <typename F>
F real(const char* name) noexcept {
  return reinterpret_cast<F>(Collector::get().library().symbol(name));
}

void others_left() noexcept {
  if (subscribers.load() <= 0 && kinds.load() == 0) Collector::get().yield(false);
}

Result subscribe(Subscriber* subscriber, Callback callback, void* user) noexcept {
  auto function = real<Result (*)(Subscriber*, Callback, void*)>("cuptiSubscribe");
  if (function == nullptr) return kUnknown;
  Collector::get().yield(true);
  Result result = function(subscriber, callback, user);
  if (result == kSuccess) subscribers++;
  if (result != kSuccess) others_left();
  return result;
}

Result subscribe2(Subscriber* subscriber, Callback callback, void* user,
                  SubscriberParams* params) noexcept {
  auto function =
      real<Result (*)(Subscriber*, Callback, void*, SubscriberParams*)>("cuptiSubscribe_v2");
  if (function == nullptr) return kUnknown;
  // Side by side if both want to be; else they have it alone.
  bool shares = Collector::get().library().api() == Api::kV2 && params != nullptr &&
                params->struct_bytes >= sizeof(SubscriberParams) && params->allow_multiple != 0;
  if (shares) return function(subscriber, callback, user, params);
  Collector::get().yield(true);
  Result result = function(subscriber, callback, user, params);
  if (result == kSuccess) subscribers++;
  if (result != kSuccess) others_left();
  return result;
}

Result unsubscribe(Subscriber subscriber) noexcept {
  auto function = real<Result (*)(Subscriber)>("cuptiUnsubscribe");
  if (function == nullptr) return kUnknown;
  Result result = function(subscriber);
  if (result == kSuccess && subscribers.load() > 0) subscribers--;
  others_left();
  return result;
}

Result enable(uint32_t kind) noexcept {
  auto function = real<Result (*)(uint32_t)>("cuptiActivityEnable");
  if (function == nullptr) return kUnknown;
  Collector::get().yield(true);
  Result result = function(kind);
  if (result == kSuccess && kind < 64) kinds |= uint64_t{1} << kind;
  if (result != kSuccess) others_left();
  return result;
}

Result disable(uint32_t kind) noexcept {
  auto function = real<Result (*)(uint32_t)>("cuptiActivityDisable");
  if (function == nullptr) return kUnknown;
  Result result = function(kind);
  if (kind < 64) kinds &= ~(uint64_t{1} << kind);
  others_left();
  return result;
}

Result register_buffers(RequestBuffer request, CompleteBuffer complete) noexcept {
  auto function = real<Result (*)(RequestBuffer, CompleteBuffer)>("cuptiActivityRegisterCallbacks");
  if (function == nullptr) return kUnknown;
  // Ours would be replaced; whoever registers enables something next.
  Collector::get().yield(true);
  return function(request, complete);
}

Result finalize() noexcept {
  auto function = real<Result (*)()>("cuptiFinalize");
  if (function == nullptr) return kUnknown;
  Result result = function();
  subscribers = 0;
  kinds = 0;
  others_left();
  return result;
}

struct Hook {
  const char* name;
  void* function;
};

template <typename F>
void* address(F* function) noexcept {
  return reinterpret_cast<void*>(function);
}

const Hook kHooks[] = {
    {"cuptiSubscribe", address(subscribe)},
    {"cuptiSubscribe_v2", address(subscribe2)},
    {"cuptiUnsubscribe", address(unsubscribe)},
    {"cuptiActivityEnable", address(enable)},
    {"cuptiActivityDisable", address(disable)},
    {"cuptiActivityRegisterCallbacks", address(register_buffers)},
    {"cuptiFinalize", address(finalize)},
};

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
                  const Tables& tables) noexcept {
  for (size_t i = 0; i < bytes / sizeof(ElfW(Rela)); i++) {
    auto type = static_cast<uint32_t>(ELF64_R_TYPE(relocations[i].r_info));
    if (type != kJumpSlot && type != kData) continue;
    const ElfW(Sym) & symbol = tables.symbols[ELF64_R_SYM(relocations[i].r_info)];
    if (symbol.st_name >= tables.text_bytes) continue;
    const char* name = tables.texts + symbol.st_name;
    if (strncmp(name, "cupti", 5) != 0) continue;
    for (const Hook& hook : kHooks) {
      if (strcmp(name, hook.name) == 0) replace(base + relocations[i].r_offset, hook.function);
    }
  }
}

int look_at(dl_phdr_info* info, size_t, void* own) noexcept {
  const ElfW(Dyn)* dynamic = nullptr;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) & header = info->dlpi_phdr[i];
    auto start = info->dlpi_addr + header.p_vaddr;
    auto here = reinterpret_cast<ElfW(Addr)>(own);
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
  if (calls != nullptr) look_through(calls, call_bytes, info->dlpi_addr, tables);
  if (others != nullptr) look_through(others, other_bytes, info->dlpi_addr, tables);
  return 0;
}

int count_loaded(dl_phdr_info* info, size_t, void* adds) noexcept {
  *static_cast<unsigned long long*>(adds) = info->dlpi_adds;
  return 1;
}

}  // namespace

void watch_neighbours() noexcept {
  static std::atomic<unsigned long long> seen{0};
  unsigned long long adds = 0;
  dl_iterate_phdr(count_loaded, &adds);
  if (seen.exchange(adds) == adds) return;
  dl_iterate_phdr(look_at, const_cast<Hook*>(kHooks));
}

}  // namespace pilotlight::cupti
