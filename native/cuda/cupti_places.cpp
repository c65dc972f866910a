// native/cuda/cupti_places.cpp
#include "cuda/cupti_places.h"

#include <link.h>
#include <stdio.h>
#include <string.h>

namespace pilotlight::cupti {
namespace {

constexpr std::string_view kCudart = "libcudart.so.";

const char* name_of(const char* path) noexcept {
  const char* slash = strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

int look(dl_phdr_info* info, size_t, void* data) noexcept {
  auto* found = static_cast<LoadedCuda*>(data);
  const char* path = info->dlpi_name;
  if (path == nullptr) return 0;
  if (strncmp(name_of(path), "libcupti.so", 11) == 0) {
    if (found->cuptis++ == 0) snprintf(found->cupti, sizeof(found->cupti), "%s", path);
  } else if (strncmp(name_of(path), "libcudart.so", 12) == 0) {
    snprintf(found->cudart, sizeof(found->cudart), "%s", path);
  }
  return 0;
}

std::string_view folder_of(std::string_view path) noexcept {
  size_t slash = path.rfind('/');
  return slash != std::string_view::npos ? path.substr(0, slash) : std::string_view();
}

// Of the same CUDA as that runtime; 13 if it does not say.
const char* cupti_for(std::string_view cudart) noexcept {
  std::string_view name = cudart.substr(cudart.rfind('/') + 1);
  if (name.substr(0, kCudart.size()) != kCudart) return "libcupti.so.13";
  std::string_view version = name.substr(kCudart.size(), 2);
  return version == "12"   ? "libcupti.so.12"
         : version == "11" ? "libcupti.so.11.8"
                           : "libcupti.so.13";
}

}  // namespace

LoadedCuda loaded_cuda() noexcept {
  LoadedCuda found = {};
  dl_iterate_phdr(look, &found);
  return found;
}

void CuptiPlaces::add(std::string_view folder, const char* rest) noexcept {
  if (count_ == kMost || folder.size() + strlen(rest) >= sizeof(paths_[0])) return;
  snprintf(paths_[count_++], sizeof(paths_[0]), "%.*s%s", static_cast<int>(folder.size()),
           folder.data(), rest);
}

void CuptiPlaces::list_one(const char* path) noexcept {
  clear();
  add("", path);
}

void CuptiPlaces::list(std::string_view cudart, std::string_view packages) noexcept {
  clear();
  std::string_view beside = folder_of(cudart);
  if (!beside.empty()) {
    const char* name = cupti_for(cudart);
    char rest[64];
    // nvidia/cu13/lib of Python's packages, conda's lib, a toolkit's lib64; nvidia/cuda_cupti/lib
    // beside nvidia/cuda_runtime/lib; a toolkit's extras.
    for (const char* way : {"", "/../../cuda_cupti/lib", "/../extras/CUPTI/lib64"}) {
      snprintf(rest, sizeof(rest), "%s/%s", way, name);
      add(beside, rest);
    }
  }
  constexpr const char* kNames[] = {"libcupti.so.13", "libcupti.so.12", "libcupti.so.11.8",
                                    "libcupti.so"};
  for (const char* name : kNames) add("", name);
  constexpr const char* kPackages[] = {"/nvidia/cu13/lib/libcupti.so.13",
                                       "/nvidia/cuda_cupti/lib/libcupti.so.12",
                                       "/nvidia/cuda_cupti/lib/libcupti.so.11.8"};
  for (const char* package : kPackages) {
    if (!packages.empty()) add(packages, package);
  }
  add("/usr/local/cuda", "/extras/CUPTI/lib64/libcupti.so");
  add("/usr/local/cuda", "/lib64/libcupti.so");
}

}  // namespace pilotlight::cupti
