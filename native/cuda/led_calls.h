// native/cuda/led_calls.h: calls of other libraries to libcupti that lead past us, in this process.
#pragma once

#include <cstddef>

namespace pilotlight::cupti {

struct LedCall {
  const char* name;
  void* real;
  void* ours;
};

struct LedCalls {
  const LedCall* first;
  size_t count;
};

// Of libraries that are linked with libcupti and loaded by now: in their tables of imported
// functions.
void lead_imports(const LedCalls& calls) noexcept;
// Whoever looks a function up by dlsym is led past us as well, and so is every library that is
// loaded from now on: the address in libcupti's table of symbols, in this process, becomes ours.
void lead_lookups(const LedCall& call) noexcept;

}  // namespace pilotlight::cupti
