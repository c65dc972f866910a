// native/scan/arrays.h: memory for the arrays of numpy within the budget of the columns.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pilotlight::scan {

// As numpy declares them (NEP 49): part of its binary interface since 1.22.
struct ArrayAllocator {
  void* context;
  void* (*malloc)(void* context, size_t bytes);
  void* (*calloc)(void* context, size_t count, size_t each);
  void* (*realloc)(void* context, void* data, size_t bytes);
  void (*free)(void* context, void* data, size_t bytes);
};

struct ArrayHandler {
  char name[127];
  uint8_t version;
  ArrayAllocator allocator;
};

// A handler whose arrays are in memory, from `usual`, up to the budget and in files beyond it.
ArrayHandler* bounded_handler(const ArrayHandler* usual);

}  // namespace pilotlight::scan
