// native/cuda/neighbours.h: notices when another tool in this process wants CUPTI.
#pragma once

namespace pilotlight::cupti {

// Before version 13.3 CUPTI has one subscriber a process, and who comes second is refused. So the
// calls by which PyTorch's profiler and others take and leave CUPTI are led past us first: their
// entries in the callers' tables of imported functions are replaced. Who looks the functions up by
// dlsym is not seen. Called again and again: libraries may be loaded at any time.
void watch_neighbours() noexcept;

}  // namespace pilotlight::cupti
