// native/provider/attach.cpp: how a device library finds the probe of its process.
#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "provider/provider_api.h"

namespace pilotlight {
namespace {

using Entry = const ProviderApi* (*)(uint32_t);

// Also the anchor by which dladdr finds the library that this code is part of.
const ProviderApi* found = nullptr;
pthread_once_t once = PTHREAD_ONCE_INIT;
char folder[4096] = {};

bool is_probe(const char* path) noexcept {
  const char* name = strrchr(path, '/');
  name = name != nullptr ? name + 1 : path;
  return strncmp(name, "_probe.", 7) == 0 && strstr(path, "pilotlight") != nullptr;
}

struct Search {
  const ProviderApi* api;
};

bool is_ours(const ProviderApi* api) noexcept {
  return api != nullptr && api->version == kProviderApiVersion &&
         api->bytes >= sizeof(ProviderApi) && api->abi == (uint32_t{kAbiMajor} << 16 | kAbiMinor) &&
         api->writer_bytes == sizeof(RingWriter);
}

const ProviderApi* api_in(const char* path, int flags) noexcept {
  void* library = dlopen(path, flags);
  if (library == nullptr) return nullptr;
  // Never closed: the table lives in it.
  auto entry = reinterpret_cast<Entry>(dlsym(library, "pilotlight_provider_api"));
  const ProviderApi* api = entry != nullptr ? entry(kProviderApiVersion) : nullptr;
  return is_ours(api) ? api : nullptr;
}

int copy_name(dl_phdr_info* info, size_t, void* path) noexcept {
  if (info->dlpi_name == nullptr || !is_probe(info->dlpi_name)) return 0;
  strncpy(static_cast<char*>(path), info->dlpi_name, sizeof(folder) - 1);
  return 1;
}

void find() noexcept {
  Dl_info self = {};
  if (dladdr(&found, &self) != 0 && self.dli_fname != nullptr) {
    const char* slash = strrchr(self.dli_fname, '/');
    if (slash != nullptr && slash - self.dli_fname < static_cast<long>(sizeof(folder))) {
      memcpy(folder, self.dli_fname, static_cast<size_t>(slash - self.dli_fname));
    }
  }
  char path[sizeof(folder) + 32] = {};
  // The name first and dlopen after: the loader's lock is held while the list is walked.
  if (dl_iterate_phdr(copy_name, path) != 0) found = api_in(path, RTLD_NOW | RTLD_NOLOAD);
  if (found != nullptr || folder[0] == 0) return;
  strcpy(path, folder);
  strcat(path, "/libpilotlight_core.so");
  found = api_in(path, RTLD_NOW | RTLD_LOCAL);
}

}  // namespace

const ProviderApi* attach() noexcept {
  pthread_once(&once, find);
  return found;
}

std::string_view own_folder() noexcept {
  attach();
  return folder;
}

void* chained_library(const char* variable) noexcept {
  char name[128] = "PILOTLIGHT_CHAIN_";
  if (strlen(variable) > 100) return nullptr;
  strcat(name, variable);
  const char* path = getenv(name);
  return path != nullptr && path[0] != 0 ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : nullptr;
}

}  // namespace pilotlight
