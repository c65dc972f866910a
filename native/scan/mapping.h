// native/scan/mapping.h: mapped files whose pages do not stay in memory.
#pragma once

#include <cstddef>

namespace pilotlight::scan {

// Mapped pages count as memory of the process until the kernel takes them back, which it does only
// when it has none left. A thread gives them back instead, some megabytes at a time; what was
// written stays in the file. From any thread.
struct Mapping {
  // Null: not possible. The file may be closed afterwards.
  static char* open(int file, size_t bytes);
  static char* grow(char* data, size_t bytes, size_t new_bytes);
  static void close(char* data, size_t bytes);
};

// Unlike ftruncate, finds out now that the disk is full, and not by a signal later.
bool extend(int file, size_t bytes);

}  // namespace pilotlight::scan
