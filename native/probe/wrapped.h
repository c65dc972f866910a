// native/probe/wrapped.h: functions of a framework with a little around them.
//
// A Wrapped looks like the function that it holds (attributes, equality, pickling by name) and
// leaves no frame of ours on the stack. What we do around the call never raises and never changes
// arguments or results; errors of ours are told to `fault` and forgotten.
#pragma once

#include "probe/module.h"
#include "probe/phase.h"
#include "probe/probe.h"

namespace pilotlight {

struct Wrapped {
  PyObject_HEAD vectorcallfunc vectorcall;
  PyObject* function;
  Phase phase;
  uint8_t kind;      // SpanKind
  bool is_awake;     // of a woken_call
  bool is_pythons;   // the function is written in Python
  PyObject* fault;   // called with an exception of ours
  PyObject* before;  // by maker: before(args) or describe(module)
  PyObject* after;   // by maker: after(token, result), or whether gradients are on
  PyObject* output;  // of modules: output(depth, module, result)
  PyObject* name;
  PyObject* weak;
};

// A new Wrapped around `function` with everything else empty, or nullptr with an exception.
Wrapped* new_wrapped(PyObject* function, PyObject* fault, vectorcallfunc call) noexcept;

// Passes the exception that is set to `fault`, and clears it.
void tell_fault(Wrapped* wrapped) noexcept;

// after(token, result), whose errors are ours; an interrupt goes on in place of the result.
void tell_after(Wrapped* wrapped, PyObject* token, PyObject** result) noexcept;

// Keeps an exception that is under way over calls of ours.
class KeptError {
 public:
  KeptError() noexcept { PyErr_Fetch(&type_, &value_, &traceback_); }
  ~KeptError() noexcept { PyErr_Restore(type_, value_, traceback_); }
  KeptError(const KeptError&) = delete;
  KeptError& operator=(const KeptError&) = delete;

  // This one goes on in its place.
  void replace(PyObject* type, PyObject* value, PyObject* traceback) noexcept {
    Py_XDECREF(type_);
    Py_XDECREF(value_);
    Py_XDECREF(traceback_);
    type_ = type;
    value_ = value;
    traceback_ = traceback;
  }

 private:
  PyObject *type_, *value_, *traceback_;
};

bool is_wrapped(PyObject* object) noexcept;

inline Wrapped* as_wrapped(PyObject* object) noexcept { return reinterpret_cast<Wrapped*>(object); }

// An error of ours is swallowed; an interrupt or an exit is the program's and goes on.
inline bool swallow(Wrapped* wrapped) noexcept {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return false;
  tell_fault(wrapped);
  return true;
}

// The call itself. What is written in Python checks by itself that it either returns or raises.
inline PyObject* call_held(Wrapped* wrapped, PyObject* const* args, size_t count,
                           PyObject* names) noexcept {
  PyObject* function = wrapped->function;
  if (__builtin_expect(wrapped->is_pythons, 1)) {
    return reinterpret_cast<PyFunctionObject*>(function)->vectorcall(function, args, count, names);
  }
  return PyObject_Vectorcall(function, args, count, names);
}

inline void write_span(RecordType type, uint32_t name, uint8_t kind) noexcept {
  RingWriter* ring = python_ring();
  if (ring != nullptr) write_span_at(ring, type, name, kind, ticks_of(ring->clock()));
}

inline bool checked(PyObject* const* args, Py_ssize_t count, Py_ssize_t wanted, const char* usage) {
  if (count == wanted && PyCallable_Check(args[0])) return true;
  PyErr_SetString(PyExc_TypeError, usage);
  return false;
}

inline PyObject* keep(PyObject* object) noexcept {
  Py_INCREF(object);
  return object;
}

inline PyObject* made(Wrapped* wrapped) noexcept { return reinterpret_cast<PyObject*>(wrapped); }

inline PyCFunction fast(PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

int add_wrapped_type(PyObject* module) noexcept;

}  // namespace pilotlight
