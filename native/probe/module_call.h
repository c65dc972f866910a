// native/probe/module_call.h: calls of a framework's modules: their names, the phase forward, and
// in some steps what they return.
#pragma once

#include "probe/module.h"

namespace pilotlight {

int add_module_call(PyObject* module) noexcept;

}  // namespace pilotlight
