// native/cuda/neighbours.h: notices when another tool in this process wants CUPTI.
#pragma once

namespace pilotlight::cupti {

// Before version 13.3 CUPTI has one subscriber a process, and who comes second is refused. So the
// calls by which PyTorch's profiler and others take and leave CUPTI are led past us first: their
// entries in the callers' tables of imported functions are replaced, and so are those that dlsym
// finds. NVIDIA's own tools have a CUPTI inside; they are known by the names of their libraries.
// Called again and again: libraries may be loaded at any time.
void watch_neighbours() noexcept;

// The name of NVIDIA's tool in this process, nullptr: none.
const char* tool_in_process() noexcept;

}  // namespace pilotlight::cupti
