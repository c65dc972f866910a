// native/provider/core_identity.h: who a process without our Python is, from its environment.
#pragma once

#include <cstddef>

namespace pilotlight {

// The JSON of docs/recording.md, "identity"; returns its size, at most `capacity`.
size_t core_identity(char* out, size_t capacity) noexcept;

}  // namespace pilotlight
