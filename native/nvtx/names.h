// native/nvtx/names.h: domains, registered strings and categories, and the names that ranges get
// from them. Handles live as long as the process; the same text gives the same handle.
#pragma once

#include <cstddef>
#include <cstdint>

#include "nvtx/nvtx_abi.h"
#include "provider/provider_api.h"

namespace pilotlight::nvtx {

constexpr uint32_t kMaxHandles = 1 << 16;
constexpr size_t kMaxHandleBytes = size_t{8} << 20;  // of all texts together
constexpr uint32_t kMaxCategories = 1024;

// A text in a buffer of its own, at most kMaxStringBytes.
struct Text {
  char bytes[kMaxStringBytes];
  uint32_t length = 0;

  void add(const char* text, size_t count) noexcept;
  void add(const char* text) noexcept;
  // UTF-8; what is no character becomes '?'.
  void add(const wchar_t* text) noexcept;
};

// A domain, or a string registered in one; what programs hold as an opaque pointer.
struct Handle {
  Handle* next;    // with the same hash
  Handle* domain;  // of a string; nullptr: the default one, or this is a domain
  void* chained;   // what the tool behind us calls it
  uint64_t hash;
  uint32_t id;  // the name of a range with this text, in run `run`
  uint32_t run;
  uint32_t length;
  char text[4];  // as long as it takes
};

Handle* as_handle(DomainHandle* domain) noexcept;
Handle* as_handle(StringHandle* string) noexcept;

// nullptr: too many; counted in names_lost().
Handle* intern(Handle* domain, bool is_domain, const Text& text) noexcept;

void name_category(Handle* domain, uint32_t category, const Text& text) noexcept;

// The id of "DOMAIN/MESSAGE [CATEGORY]".
uint32_t range_name(const ProviderApi& api, Handle* domain, const Attributes& attributes) noexcept;
uint32_t range_name(const ProviderApi& api, Handle* domain, const Text& message) noexcept;

uint64_t names_lost() noexcept;

}  // namespace pilotlight::nvtx
