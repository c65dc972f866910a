// native/probe/module.h: what the parts of pilotlight._probe share.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <cstdint>
#include <string_view>

#include "probe/probe.h"

namespace pilotlight {

// The id of a name, remembered per str up to a bound; 0 while the probe is not running.
uint32_t name_id(PyObject* name) noexcept;

// The calling thread's ring; the first time under the thread's Python name. Needs the GIL.
RingWriter* attach_by_python_name() noexcept;
inline RingWriter* known_python_ring() noexcept {
#ifdef Py_GIL_DISABLED
  return Probe::attached();
#else
  return Probe::attached_last();
#endif
}
inline RingWriter* python_ring() noexcept {
  RingWriter* ring = known_python_ring();
  return __builtin_expect(ring != nullptr, 1) ? ring : attach_by_python_name();
}

// Whether Python started the calling thread; a library's own have no name of a person's making.
bool is_programs_thread() noexcept;

// Whether it is an int that needs no call to be read, as nearly all are. (Before 3.12 those below 0
// are left out: their sign would be multiplied in.)
inline bool is_small_int(PyObject* number) noexcept {
  if (!PyLong_CheckExact(number)) return false;
#if PY_VERSION_HEX >= 0x030c0000
  return PyUnstable_Long_IsCompact(reinterpret_cast<PyLongObject*>(number)) != 0;
#else
  return static_cast<size_t>(Py_SIZE(number)) <= 1;
#endif
}
inline uint64_t word_of_small(PyObject* number) noexcept {
#if PY_VERSION_HEX >= 0x030c0000
  return static_cast<uint64_t>(
      PyUnstable_Long_CompactValue(reinterpret_cast<PyLongObject*>(number)));
#else
  return reinterpret_cast<PyLongObject*>(number)->ob_digit[0];  // 0 has a digit too
#endif
}
// The value of an int modulo 2^64.
inline uint64_t word_of(PyObject* number) noexcept {
  return is_small_int(number) ? word_of_small(number) : PyLong_AsUnsignedLongLongMask(number);
}

// collective(...): see _probe.pyi.
PyObject* py_collective(PyObject*, PyObject* const* args, Py_ssize_t count);

// A step begins, unless the program tells its steps itself; nullptr: the next number; 0: now.
void write_automatic_step(const int64_t* number, uint64_t ticks) noexcept;

// The text of a str, valid as long as it is; "?" where it has no UTF-8.
std::string_view utf8_of(PyObject* text) noexcept;

// Forgets the exception that our own code raised. An interrupt or exit that came meanwhile is the
// program's: it is raised again where its main thread goes on.
void clear_own_error() noexcept;

// Lets adapters look at what changes slowly, at most once a second.
void after_step(uint64_t ticks) noexcept;

// What adapters of frameworks use; -1 with an exception.
int add_framework(PyObject* module) noexcept;

// The type behind pilotlight.annotate; a new reference, or nullptr with an exception.
PyObject* make_range_type() noexcept;

}  // namespace pilotlight
