// native/tests/gpu_sim/version.cpp: which CUPTI this library plays; all else is compiled once.
#include "cupti_sim.h"

const uint32_t gpu_sim::kVersion = SIM_VERSION;
