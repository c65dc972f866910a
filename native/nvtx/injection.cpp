// native/nvtx/injection.cpp: libpilotlight_nvtx.so. NVTX loads it (NVTX_INJECTION64_PATH) and calls
// InitializeInjectionNvtx2 once for each library that uses NVTX; it puts its functions into the
// tables of that library. A tool that was named in the variable before us gets its turn first, and
// every call afterwards, with the handles that it gave out itself.
#include <dlfcn.h>
#include <stdlib.h>

#include "nvtx/calls.h"

namespace pilotlight::nvtx {
namespace {

struct Table {
  FunctionTable slots;
  unsigned int size;
  Function before[kCore2Calls];
};

static_assert(static_cast<uint32_t>(kCoreCalls) == static_cast<uint32_t>(kCore2Calls));
static_assert(static_cast<uint32_t>(kSyncCalls) <= static_cast<uint32_t>(kCore2Calls));

bool open(const CallbackTable& callbacks, Module module, Table* table) noexcept {
  *table = {};
  if (callbacks.module_functions(module, &table->slots, &table->size) == 0) return false;
  if (table->slots == nullptr) return false;
  for (unsigned int i = 0; i < table->size && i < kCore2Calls; i++) {
    table->before[i] = table->slots[i] != nullptr ? *table->slots[i] : nullptr;
  }
  return true;
}

void install(const Table& table, const Hooks& ours) noexcept {
  for (size_t i = 0; table.slots != nullptr && i < ours.count; i++) {
    uint32_t call = ours.hooks[i].call;
    if (call >= table.size || table.slots[call] == nullptr) continue;
    Function now = *table.slots[call];
    // What was there before the tool behind us came is NVTX's own start-up code.
    if (now != table.before[call] && now != ours.hooks[i].function) ours.behind[call] = now;
    *table.slots[call] = ours.hooks[i].function;
  }
}

Initialize tool_behind() noexcept {
  static void* library = chained_library("NVTX_INJECTION64_PATH");
  if (library == nullptr) return nullptr;
  return reinterpret_cast<Initialize>(dlsym(library, "InitializeInjectionNvtx2"));
}

}  // namespace
}  // namespace pilotlight::nvtx

// 1: attached. Called once for each library with NVTX in it, by whatever thread uses it first.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    pilotlight::nvtx::GetExportTable get_export_table) {
  using namespace pilotlight::nvtx;
  Initialize behind_us = tool_behind();
  if (get_export_table == nullptr) return 0;
  auto* callbacks = static_cast<const CallbackTable*>(get_export_table(kCallbackTableId));
  bool is_known = callbacks != nullptr && callbacks->struct_size >= sizeof(CallbackTable);
  Table core = {}, core2 = {}, sync = {};
  if (is_known) {
    open(*callbacks, kCore, &core);
    open(*callbacks, kCore2, &core2);
    open(*callbacks, kSync, &sync);
  }
  int answer = behind_us != nullptr ? behind_us(get_export_table) : 0;
  const pilotlight::ProviderApi* api = pilotlight::attach();
  if (api == nullptr || !is_known) return answer;
  use(api);
  // After attach: what is registered last runs first, and the core stops at exit too.
  static const int registered = atexit(tell_all_losses);
  (void)registered;
  install(core, core_calls());
  install(core2, core2_calls());
  install(sync, sync_calls());
  return 1;
}
