// native/opencl/target.h: the loader's functions, which ours go on to.
#pragma once

#include "opencl/opencl_abi.h"

namespace pilotlight::opencl {

extern const Function* target;

template <typename F>
F* next(Call call) noexcept {
  return reinterpret_cast<F*>(target[call]);
}

}  // namespace pilotlight::opencl
