// native/probe/module.h: what the parts of pilotlight._probe share.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>

namespace pilotlight {

// The id of a name, remembered per str up to a bound; 0 while the probe is not running.
uint32_t name_id(PyObject* name) noexcept;

// The calling thread's ring; the first time under the thread's Python name. Needs the GIL.
class RingWriter;
RingWriter* python_ring() noexcept;

// The type behind pilotlight.annotate; a new reference, or nullptr with an exception.
PyObject* make_range_type() noexcept;

}  // namespace pilotlight
