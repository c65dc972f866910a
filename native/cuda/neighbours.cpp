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
#include "cuda/lent_place.h"

namespace pilotlight::cupti {
namespace {

#if defined(__aarch64__)
constexpr uint32_t kJumpSlot = R_AARCH64_JUMP_SLOT, kData = R_AARCH64_GLOB_DAT;
#else
constexpr uint32_t kJumpSlot = R_X86_64_JUMP_SLOT, kData = R_X86_64_GLOB_DAT;
#endif

std::atomic<int> subscribers{0};
std::atomic<uint64_t> kinds{0};  // enabled by others, a bit each
// Where theirs go: while they traced nothing, ours took their place.
std::atomic<RequestBuffer> their_request{nullptr};
std::atomic<CompleteBuffer> their_complete{nullptr};
// Those that came beside us.
constexpr uint32_t kMaxSharers = 8;
std::atomic<Subscriber> sharers[kMaxSharers] = {};

// A library by which a tool of NVIDIA's gets into a process, and takes CUPTI's place there.
struct Tool {
  const char* library;
  const char* name;
};
constexpr Tool kTools[] = {{"libToolsInjection64.so", "Nsight Systems"},
                           {"libcuda-injection.so", "Nsight Compute"},
                           {"libsanitizer-collection.so", "Compute Sanitizer"}};
std::atomic<const char*> tool{nullptr};

enum Function : uint32_t {
  kSubscribe,
  kSubscribe2,
  kUnsubscribe,
  kEnable,
  kDisable,
  kRegister,
  kClock,
  kFinalize,
  kEnableCallback,
  kEnableDomain,
  kEnableAll,
  kFunctions
};
// The functions that callers mean, in the library that we use too.
void* reals[kFunctions] = {};

template <typename F>
F real(Function function) noexcept {
  return reinterpret_cast<F>(reals[function]);
}

// Those who stay subscribed and trace nothing any more lend us their place.
void others_left() noexcept {
  bool is_free = subscribers.load() <= 0 || LentPlace::get().is_lent();
  if (is_free && kinds.load() == 0 && tool.load() == nullptr) {
    Collector::get().yield(false);
  }
}

Result subscribe(Subscriber* subscriber, Callback callback, void* user) noexcept {
  auto function = real<Result (*)(Subscriber*, Callback, void*)>(kSubscribe);
  if (function == nullptr) return kUnknown;
  Collector::get().yield(true);
  Result result = LentPlace::get().subscribe(subscriber, callback, user);
  if (result == kSuccess) subscribers++;
  if (result != kSuccess) others_left();
  return result;
}

Result subscribe_beside(Subscriber* subscriber, Callback callback, void* user,
                        SubscriberParams* params) noexcept {
  auto function = real<Result (*)(Subscriber*, Callback, void*, SubscriberParams*)>(kSubscribe2);
  Collector::get().share(true);
  Result result = function(subscriber, callback, user, params);
  if (result == kSuccess) {
    for (auto& sharer : sharers) {
      Subscriber nobody = nullptr;
      if (sharer.compare_exchange_strong(nobody, *subscriber)) return result;
    }
    return result;  // more than we can keep in mind: they count as there to the end
  }
  Collector::get().share(false);
  return result;
}

void sharer_left(Subscriber subscriber) noexcept {
  for (auto& sharer : sharers) {
    Subscriber left = subscriber;
    if (subscriber == nullptr || !sharer.compare_exchange_strong(left, nullptr)) continue;
    return Collector::get().share(false);
  }
}

Result subscribe2(Subscriber* subscriber, Callback callback, void* user,
                  SubscriberParams* params) noexcept {
  auto function = real<Result (*)(Subscriber*, Callback, void*, SubscriberParams*)>(kSubscribe2);
  if (function == nullptr) return kUnknown;
  // Side by side if both want to be; else they have it alone.
  bool shares = Collector::get().library().api() == Api::kV2 && params != nullptr &&
                params->struct_bytes >= sizeof(SubscriberParams) && params->allow_multiple != 0;
  if (shares) return subscribe_beside(subscriber, callback, user, params);
  Collector::get().yield(true);
  Result result = function(subscriber, callback, user, params);
  if (result == kSuccess) subscribers++;
  if (result != kSuccess) others_left();
  return result;
}

Result unsubscribe(Subscriber subscriber) noexcept {
  auto function = real<Result (*)(Subscriber)>(kUnsubscribe);
  if (function == nullptr) return kUnknown;
  if (LentPlace::get().is_lent()) Collector::get().yield(true);
  Result result = function(subscriber);
  if (result == kSuccess && subscribers.load() > 0) subscribers--;
  if (result == kSuccess && subscribers.load() == 0) LentPlace::get().close();
  if (result == kSuccess) sharer_left(subscriber);
  others_left();
  return result;
}

// Whoever registered once need not do it again.
void give_buffers_back() noexcept {
  auto function = real<Result (*)(RequestBuffer, CompleteBuffer)>(kRegister);
  RequestBuffer request = their_request.load();
  if (kinds.load() == 0 && request != nullptr) function(request, their_complete.load());
}

Result enable(uint32_t kind) noexcept {
  auto function = real<Result (*)(uint32_t)>(kEnable);
  if (function == nullptr) return kUnknown;
  Collector::get().yield(true);
  bool was_lent = LentPlace::get().is_lent();
  LentPlace::get().take_back();
  give_buffers_back();
  Result result = function(kind);
  if (result == kSuccess && kind < 64) kinds |= uint64_t{1} << kind;
  if (was_lent && kinds.load() == 0) LentPlace::get().lend();
  if (result != kSuccess) others_left();
  return result;
}

Result disable(uint32_t kind) noexcept {
  auto function = real<Result (*)(uint32_t)>(kDisable);
  if (function == nullptr) return kUnknown;
  Result result = function(kind);
  uint64_t before = kinds.load();
  if (kind < 64) kinds &= ~(uint64_t{1} << kind);
  if (before != 0 && kinds.load() == 0 && subscribers.load() == 1) LentPlace::get().lend();
  others_left();
  return result;
}

Result register_buffers(RequestBuffer request, CompleteBuffer complete) noexcept {
  auto function = real<Result (*)(RequestBuffer, CompleteBuffer)>(kRegister);
  if (function == nullptr) return kUnknown;
  // Ours would be replaced; whoever registers enables something next.
  Collector::get().yield(true);
  their_request = request;
  their_complete = complete;
  return function(request, complete);
}

// Not while we have records on, or they would be told by two clocks; what comes next is enabled.
Result register_clock(uint64_t (*clock)()) noexcept {
  auto function = real<Result (*)(uint64_t (*)())>(kClock);
  if (function == nullptr) return kUnknown;
  Collector::get().yield(true);
  return function(clock);
}

Result finalize() noexcept {
  auto function = real<Result (*)()>(kFinalize);
  if (function == nullptr) return kUnknown;
  if (LentPlace::get().is_lent()) Collector::get().yield(true);
  LentPlace::get().close();
  Result result = function();
  subscribers = 0;
  kinds = 0;
  others_left();
  return result;
}

Result enable_callback(uint32_t on, Subscriber subscriber, uint32_t domain, uint32_t id) noexcept {
  return LentPlace::get().enable_callback(on, subscriber, domain, id);
}

Result enable_domain(uint32_t on, Subscriber subscriber, uint32_t domain) noexcept {
  return LentPlace::get().enable_domain(on, subscriber, domain);
}

Result enable_all(uint32_t on, Subscriber subscriber) noexcept {
  return LentPlace::get().enable_all(on, subscriber);
}

struct Hook {
  Function which;
  const char* name;
  void* function;
};

template <typename F>
void* address(F* function) noexcept {
  return reinterpret_cast<void*>(function);
}

const Hook kHooks[] = {
    {kSubscribe, "cuptiSubscribe", address(subscribe)},
    {kSubscribe2, "cuptiSubscribe_v2", address(subscribe2)},
    {kUnsubscribe, "cuptiUnsubscribe", address(unsubscribe)},
    {kEnable, "cuptiActivityEnable", address(enable)},
    {kDisable, "cuptiActivityDisable", address(disable)},
    {kRegister, "cuptiActivityRegisterCallbacks", address(register_buffers)},
    {kClock, "cuptiActivityRegisterTimestampCallback", address(register_clock)},
    {kFinalize, "cuptiFinalize", address(finalize)},
    {kEnableCallback, "cuptiEnableCallback", address(enable_callback)},
    {kEnableDomain, "cuptiEnableDomain", address(enable_domain)},
    {kEnableAll, "cuptiEnableAllDomains", address(enable_all)},
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
      if (reals[hook.which] != nullptr && strcmp(name, hook.name) == 0) {
        replace(base + relocations[i].r_offset, hook.function);
      }
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

// Whoever looks a function up by dlsym is led past us as well, and so is every library that is
// loaded from now on: the address in libcupti's table of symbols, in this process, becomes ours.
void lead_lookups(const Hook& hook) noexcept {
  Dl_info info = {};
  void* entry = nullptr;
  if (dladdr1(reals[hook.which], &info, &entry, RTLD_DL_SYMENT) == 0) return;
  // Another name for the same address, which nobody looks up.
  if (entry == nullptr || info.dli_sname == nullptr || strcmp(info.dli_sname, hook.name) != 0) {
    return;
  }
  auto* value = &static_cast<ElfW(Sym)*>(entry)->st_value;
  auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  auto* start = reinterpret_cast<void*>(reinterpret_cast<size_t>(value) & ~(page - 1));
  // In libraries of older linkers code may lie in the same page: it stays executable all the time.
  Protection before = {reinterpret_cast<ElfW(Addr)>(value), -1};
  dl_iterate_phdr(look_for_protection, &before);
  if (before.flags < 0 || mprotect(start, page, before.flags | PROT_WRITE) != 0) return;
  auto base = reinterpret_cast<ElfW(Addr)>(reals[hook.which]) - *value;
  __atomic_store_n(value, reinterpret_cast<ElfW(Addr)>(hook.function) - base, __ATOMIC_RELEASE);
  mprotect(start, page, before.flags);
}

// Once: the functions themselves, before their places are taken.
bool know_functions() noexcept {
  Library& library = Collector::get().library();
  if (!library.is_open()) return false;
  if (reals[kSubscribe] != nullptr) return true;
  for (const Hook& hook : kHooks) reals[hook.which] = library.symbol(hook.name);
  LentPlace::get().know({real<decltype(PlaceFunctions::subscribe)>(kSubscribe),
                         real<decltype(PlaceFunctions::enable_callback)>(kEnableCallback),
                         real<decltype(PlaceFunctions::enable_domain)>(kEnableDomain),
                         real<decltype(PlaceFunctions::enable_all)>(kEnableAll)});
  // What is changed in it must stay what we know.
  library.keep();
  for (const Hook& hook : kHooks) {
    if (reals[hook.which] != nullptr) lead_lookups(hook);
  }
  return true;
}

struct Loaded {
  unsigned long long changes;
  const char* tool;
};

int look_for_tools(dl_phdr_info* info, size_t, void* data) noexcept {
  auto* loaded = static_cast<Loaded*>(data);
  loaded->changes = info->dlpi_adds + info->dlpi_subs;
  const char* name = strrchr(info->dlpi_name, '/');
  name = name != nullptr ? name + 1 : info->dlpi_name;
  for (const Tool& one : kTools) {
    if (strcmp(name, one.library) == 0) loaded->tool = one.name;
  }
  return 0;
}

}  // namespace

const char* tool_in_process() noexcept { return tool.load(std::memory_order_relaxed); }

void watch_neighbours() noexcept {
  static std::atomic<unsigned long long> seen{0}, hooked{0};
  Loaded loaded = {};
  dl_iterate_phdr(look_for_tools, &loaded);
  if (seen.exchange(loaded.changes) != loaded.changes) {
    tool.store(loaded.tool, std::memory_order_relaxed);
    if (loaded.tool != nullptr) {
      Collector::get().yield(true);
    } else {
      others_left();
    }
  }
  if (!know_functions() || hooked.exchange(loaded.changes) == loaded.changes) return;
  dl_iterate_phdr(look_at, const_cast<Hook*>(kHooks));
}

}  // namespace pilotlight::cupti
