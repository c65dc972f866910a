// native/cuda/window_mark.h: what the mark "gpu/window" says.
#pragma once

#include <cstdint>

namespace pilotlight::cupti {

// docs/gpu.md.
enum WindowMark : int64_t {
  kMarkEnded = -2,
  kMarkNothing = -1,
  kMarkLaunches = 0,
  kMarkRecords = 1,
  kMarkNodes = 2
};

}  // namespace pilotlight::cupti
