// native/cuda/neighbours.h: notices when another tool in this process wants CUPTI.
#pragma once

namespace pilotlight::cupti {

// Before version 13.3 CUPTI has one subscriber a process, and who comes second is refused. So the
// calls with which PyTorch's profiler and others take and leave CUPTI are led past us first: their
// entries in the tables of imported functions are replaced. Libraries loaded later are found on the
// next call, once a second.
void watch_neighbours() noexcept;

}  // namespace pilotlight::cupti
