// native/cuda/injection.cpp: libpilotlight_cuda.so, which the CUDA driver loads at cuInit because
// CUDA_INJECTION64_PATH names it.
#include <dlfcn.h>
#include <stdlib.h>

#include "cuda/collector.h"
#include "cuda/neighbours.h"
#include "provider/provider_api.h"

namespace {

void at_exit() noexcept { pilotlight::cupti::Collector::get().finish(); }

}  // namespace

extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  using namespace pilotlight;
  // Whoever was there before us goes first: if they take CUPTI, it is theirs.
  void* chained = chained_library("CUDA_INJECTION64_PATH");
  if (chained != nullptr) {
    auto entry = reinterpret_cast<int (*)()>(dlsym(chained, "InitializeInjection"));
    if (entry != nullptr) entry();
  }
  const ProviderApi* api = attach();
  if (api == nullptr) return 1;
  cupti::Collector::get().start(api);
  cupti::watch_neighbours();
  atexit(at_exit);
  return 1;
}

// For tools in the same process that know of us: 1 to let go of CUPTI at once, 0 to come back.
extern "C" __attribute__((visibility("default"))) void pilotlight_cuda_yield(int to_others) {
  pilotlight::cupti::Collector::get().yield(to_others != 0);
}
