// native/probe/counted_call.h: functions of which only some calls are told to Python.
#pragma once

#include "probe/module.h"

namespace pilotlight {

int add_counted_call(PyObject* module) noexcept;

}  // namespace pilotlight
