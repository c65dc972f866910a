// native/nvtx/names.cpp
#include "nvtx/names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <atomic>

#include "provider/brief_lock.h"

namespace pilotlight::nvtx {
namespace {

constexpr uint32_t kBuckets = 1 << 12;
constexpr uint32_t kCached = 512;  // a power of two
constexpr uint64_t kPrime = 0x9E3779B97F4A7C15u;

struct Category {
  const Handle* domain;
  uint32_t number;
  uint32_t length;
  char text[64];
};

std::atomic_flag handles_lock = ATOMIC_FLAG_INIT;
std::atomic_flag categories_lock = ATOMIC_FLAG_INIT;
Handle* buckets[kBuckets];
uint32_t handle_count;
size_t handle_bytes;
Category categories[kMaxCategories];
uint32_t category_count;
std::atomic<uint64_t> lost{0};

struct Cached {
  uint64_t key;
  uint32_t id;
  uint32_t run;
};
thread_local Cached cache[kCached];

uint64_t mix(uint64_t hash, uint64_t word) noexcept {
  hash = (hash ^ word) * kPrime;
  return hash ^ (hash >> 32);
}

uint64_t hash_of(const char* text, size_t length, uint64_t seed) noexcept {
  uint64_t hash = mix(seed, length);
  while (length >= 8) {
    uint64_t word;
    memcpy(&word, text, 8);
    hash = mix(hash, word);
    text += 8;
    length -= 8;
  }
  uint64_t word = 0;
  memcpy(&word, text, length);
  return mix(hash, word);
}

uint64_t key_of(const void* domain, uint32_t category) noexcept {
  return mix(mix(kPrime, reinterpret_cast<uintptr_t>(domain)), category);
}

void add_category(Text& text, const Handle* domain, uint32_t number) noexcept {
  text.add(" [");
  size_t before = text.length;
  {
    BriefLock lock(categories_lock);
    for (uint32_t i = 0; lock && i < category_count; i++) {
      if (categories[i].domain == domain && categories[i].number == number) {
        text.add(categories[i].text, categories[i].length);
        break;
      }
    }
  }
  if (text.length == before) {
    char digits[32];
    snprintf(digits, sizeof(digits), "category %u", number);
    text.add(digits);
  }
  text.add("]");
}

// From the thread's cache, or made now from what `key` stands for.
uint32_t cached_name(const ProviderApi& api, uint64_t key, const Handle* domain, uint32_t category,
                     const char* message, size_t length) noexcept {
  uint32_t run = api.run->load(std::memory_order_relaxed);
  Cached& place = cache[key & (kCached - 1)];
  if (place.key == key && place.run == run && place.id != 0) return place.id;
  Text text;
  if (domain != nullptr) {
    text.add(domain->text, domain->length);
    text.add("/");
  }
  text.add(message, length);
  if (category != 0) add_category(text, domain, category);
  place = {key, api.string(text.bytes, text.length), run};
  return place.id;
}

}  // namespace

void Text::add(const char* text, size_t count) noexcept {
  size_t room = sizeof(bytes) - length;
  if (count > room) count = room;
  memcpy(bytes + length, text, count);
  length += static_cast<uint32_t>(count);
}

void Text::add(const char* text) noexcept {
  if (text != nullptr) add(text, strnlen(text, sizeof(bytes)));
}

void Text::add(const wchar_t* text) noexcept {
  if (text == nullptr) return;
  for (; *text != 0 && length + 4 <= sizeof(bytes); text++) {
    auto code = static_cast<uint32_t>(*text);
    char out[4];
    size_t count = 0;
    if (code < 0x80) {
      out[count++] = static_cast<char>(code);
    } else if (code < 0x800) {
      out[count++] = static_cast<char>(0xC0 | code >> 6);
      out[count++] = static_cast<char>(0x80 | (code & 0x3F));
    } else if (code < 0x10000 && (code < 0xD800 || code > 0xDFFF)) {
      out[count++] = static_cast<char>(0xE0 | code >> 12);
      out[count++] = static_cast<char>(0x80 | (code >> 6 & 0x3F));
      out[count++] = static_cast<char>(0x80 | (code & 0x3F));
    } else if (code >= 0x10000 && code < 0x110000) {
      out[count++] = static_cast<char>(0xF0 | code >> 18);
      out[count++] = static_cast<char>(0x80 | (code >> 12 & 0x3F));
      out[count++] = static_cast<char>(0x80 | (code >> 6 & 0x3F));
      out[count++] = static_cast<char>(0x80 | (code & 0x3F));
    } else {
      out[count++] = '?';
    }
    add(out, count);
  }
}

Handle* as_handle(DomainHandle* domain) noexcept { return reinterpret_cast<Handle*>(domain); }
Handle* as_handle(StringHandle* string) noexcept { return reinterpret_cast<Handle*>(string); }

Handle* intern(Handle* domain, bool is_domain, const Text& text) noexcept {
  uint64_t hash = hash_of(text.bytes, text.length, key_of(domain, is_domain ? 1 : 2));
  BriefLock lock(handles_lock);
  if (!lock) {
    lost.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  Handle** bucket = &buckets[hash & (kBuckets - 1)];
  for (Handle* one = *bucket; one != nullptr; one = one->next) {
    if (one->hash == hash && one->length == text.length &&
        memcmp(one->text, text.bytes, text.length) == 0) {
      return one;
    }
  }
  size_t size = sizeof(Handle) + text.length;
  auto* made = handle_count < kMaxHandles && handle_bytes + size <= kMaxHandleBytes
                   ? static_cast<Handle*>(calloc(1, size))
                   : nullptr;
  if (made == nullptr) {
    lost.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  handle_count++;
  handle_bytes += size;
  made->next = *bucket;
  made->domain = domain;
  made->hash = hash;
  made->length = text.length;
  memcpy(made->text, text.bytes, text.length);
  *bucket = made;
  return made;
}

void name_category(Handle* domain, uint32_t category, const Text& text) noexcept {
  BriefLock lock(categories_lock);
  uint32_t place = lock ? 0 : kMaxCategories;
  while (place < category_count &&
         (categories[place].domain != domain || categories[place].number != category)) {
    place++;
  }
  if (place == kMaxCategories) {
    lost.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  Category& one = categories[place];
  one.domain = domain;
  one.number = category;
  one.length = text.length < sizeof(one.text) ? text.length : sizeof(one.text);
  memcpy(one.text, text.bytes, one.length);
  if (place == category_count) category_count++;
}

uint32_t range_name(const ProviderApi& api, Handle* domain, const Text& message) noexcept {
  uint64_t key = hash_of(message.bytes, message.length, key_of(domain, 0));
  return cached_name(api, key, domain, 0, message.bytes, message.length);
}

uint32_t range_name(const ProviderApi& api, Handle* domain, const Attributes& attributes) noexcept {
  uint32_t category = attributes.category;
  if (attributes.message_type == kRegistered) {
    Handle* string = as_handle(attributes.message.registered);
    if (string == nullptr)
      return cached_name(api, key_of(domain, category) + 1, domain, category, "(no name)", 9);
    uint64_t key = mix(key_of(domain, category), reinterpret_cast<uintptr_t>(string));
    return cached_name(api, key, domain, category, string->text, string->length);
  }
  if (attributes.message_type == kAscii && attributes.message.ascii != nullptr) {
    const char* text = attributes.message.ascii;
    size_t length = strnlen(text, kMaxStringBytes);
    uint64_t key = hash_of(text, length, key_of(domain, category));
    return cached_name(api, key, domain, category, text, length);
  }
  Text text;
  if (attributes.message_type == kUnicode) text.add(attributes.message.unicode);
  uint64_t key = hash_of(text.bytes, text.length, key_of(domain, category));
  return cached_name(api, key, domain, category, text.bytes, text.length);
}

uint64_t names_lost() noexcept { return lost.load(std::memory_order_relaxed); }

}  // namespace pilotlight::nvtx
