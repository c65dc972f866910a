// native/cuda/kernel_names.cpp
#include "cuda/kernel_names.h"

#include <cxxabi.h>
#include <stdlib.h>
#include <string.h>

namespace pilotlight::cupti {
namespace {

constexpr uint32_t kSeenSlots = 1 << 15;
static_assert(KernelNames::kMaxNames * 2 <= kSeenSlots);

constexpr char kOther[] = "(other kernels)";
constexpr char kNameless[] = "(no name)";

}  // namespace

bool KernelNames::open(const ProviderApi* api) noexcept {
  api_ = api;
  if (entries_ == nullptr) entries_ = static_cast<Entry*>(calloc(kEntries, sizeof(Entry)));
  if (seen_ == nullptr) seen_ = static_cast<uint64_t*>(calloc(kSeenSlots, sizeof(uint64_t)));
  other_ = api->string(kOther, sizeof(kOther) - 1);
  return entries_ != nullptr && seen_ != nullptr;
}

uint32_t KernelNames::id(const char* name) noexcept {
  if (name == nullptr) name = kNameless;
  uint32_t epoch = epoch_.load(std::memory_order_relaxed);
  uint64_t mixed = reinterpret_cast<uint64_t>(name) * 0x9e3779b97f4a7c15ull;
  Entry& entry = entries_[mixed >> 40 & (kEntries - 1)];
  if (entry.name == name && entry.epoch == epoch) return entry.id;
  uint32_t id = define(name);
  entry = {name, epoch, id};
  return id;
}

// Remembers the name by its hash; false if it was there already.
bool KernelNames::is_new(const char* name, size_t bytes) noexcept {
  uint64_t hash = 0xcbf29ce484222325ull;
  for (size_t i = 0; i < bytes; i++) {
    hash = (hash ^ static_cast<unsigned char>(name[i])) * 0x100000001b3ull;
  }
  hash |= 1;
  uint32_t slot = static_cast<uint32_t>(hash >> 20) & (kSeenSlots - 1);
  for (; seen_[slot] != 0; slot = (slot + 1) & (kSeenSlots - 1)) {
    if (seen_[slot] == hash) return false;
  }
  if (names_ < kMaxNames && bytes_ < kMaxBytes) seen_[slot] = hash;
  return true;
}

uint32_t KernelNames::define(const char* name) noexcept {
  // A name of a megabyte must not be looked at to its end each time.
  size_t bytes = strnlen(name, 8192);
  bool fresh = is_new(name, bytes);
  if (fresh && (names_ >= kMaxNames || bytes_ >= kMaxBytes)) {
    shared_.add(1);
    return other_;
  }
  char* plain = nullptr;
  if (bytes < 4096 && name[0] == '_' && name[1] == 'Z') {
    int status = 0;
    plain = abi::__cxa_demangle(name, nullptr, nullptr, &status);
  }
  const char* text = plain != nullptr ? plain : name;
  size_t text_bytes = plain != nullptr ? strlen(plain) : bytes;
  if (fresh) {
    names_++;
    bytes_ += text_bytes < kMaxStringBytes ? text_bytes : kMaxStringBytes;
  }
  uint32_t id = api_->string(text, text_bytes);
  free(plain);
  return id;
}

}  // namespace pilotlight::cupti
