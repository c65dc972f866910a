// native/probe/module_call.h: calls of a framework's modules: their names, the phase forward, and
// in some steps what they return.
#pragma once

#include "probe/module.h"

namespace pilotlight {

// After a step: whether the modules of the next are asked for what they return.
void choose_outputs(int64_t now_ns) noexcept;

int add_module_call(PyObject* module) noexcept;

}  // namespace pilotlight
