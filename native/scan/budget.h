// native/scan/budget.h: what columns and arrays may hold in memory together.
#pragma once

#include <cstddef>

namespace pilotlight::scan {

// What is smaller stays in memory whatever the budget: a file would cost more than it saves.
constexpr size_t kSmall = 64 << 10;

// For the whole process, from any thread.
struct Budget {
  // What is beyond the budget goes to files without a name in this folder.
  static void set(size_t memory_bytes, const char* folder);
  static size_t bytes();
  // False: not to be held in memory.
  [[nodiscard]] static bool take(size_t bytes);
  // Held whatever the budget is.
  static void force(size_t bytes);
  static void give(size_t bytes);
  // The most that was held since the budget was set.
  static size_t peak_bytes();
  // An open file without a name, or -1.
  static int nameless_file();
};

}  // namespace pilotlight::scan
