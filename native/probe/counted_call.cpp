// native/probe/counted_call.cpp
#include "probe/counted_call.h"

#include "probe/hot.h"
#include "probe/wrapped.h"

namespace pilotlight {
namespace {

PILOTLIGHT_HOT PyObject* call_woken(PyObject* self, PyObject* const* args, size_t count,
                                    PyObject* names) {
  Wrapped* wrapped = as_wrapped(self);
  PyObject* result = call_held(wrapped, args, count, names);
  if (wrapped->is_awake && PyVectorcall_NARGS(count) > 0) {
    wrapped->is_awake = false;
    tell_after(wrapped, args[0], &result);
  }
  return result;
}

// Calls by the object that they are made on, so that only some of them are told to Python.
struct Counted {
  const void* of;
  uint64_t calls, next;
};
constexpr size_t kMostCounted = 64;
Counted counted[kMostCounted] = {};

Counted* find_counted(const void* object) noexcept {
  for (Counted& each : counted) {
    if (each.of == object) return &each;
    if (each.of == nullptr) {
      each = {object, 0, 0};
      return &each;
    }
  }
  return nullptr;
}

// How many calls may pass before the next is told. False with an interrupt.
bool tell_counted(Wrapped* wrapped, Counted* mine, PyObject* object) noexcept {
  PyObject* number = PyLong_FromUnsignedLongLong(mine->calls);
  PyObject* told = PyObject_CallFunctionObjArgs(wrapped->before, object, number, nullptr);
  Py_XDECREF(number);
  mine->next = mine->calls + 1;
  if (told == nullptr) return swallow(wrapped);
  if (PyLong_Check(told)) mine->next = mine->calls + word_of(told);
  Py_DECREF(told);
  return true;
}

PILOTLIGHT_HOT PyObject* call_counted(PyObject* self, PyObject* const* args, size_t count,
                                      PyObject* names) {
  Wrapped* wrapped = as_wrapped(self);
  Counted* mine = PyVectorcall_NARGS(count) > 0 ? find_counted(args[0]) : nullptr;
  if (mine != nullptr && ++mine->calls >= mine->next && !tell_counted(wrapped, mine, args[0])) {
    return nullptr;
  }
  return call_held(wrapped, args, count, names);
}

PyObject* py_counted_call(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!checked(args, count, 3, "counted_call(function, fault, due)")) return nullptr;
  Wrapped* wrapped = new_wrapped(args[0], args[1], call_counted);
  if (wrapped != nullptr) wrapped->before = keep(args[2]);
  return made(wrapped);
}

PyObject* py_forget_counted(PyObject*, PyObject* address) {
  const void* object = PyLong_AsVoidPtr(address);
  if (object == nullptr) return PyErr_Occurred() ? nullptr : Py_NewRef(Py_None);
  size_t kept = 0;
  for (const Counted& each : counted) {
    if (each.of != object) counted[kept++] = each;
  }
  if (kept < kMostCounted) counted[kept] = {};
  Py_RETURN_NONE;
}

PyObject* py_counted(PyObject*, PyObject* address) {
  const void* object = PyLong_AsVoidPtr(address);
  if (object == nullptr && PyErr_Occurred()) return nullptr;
  for (const Counted& each : counted) {
    if (object != nullptr && each.of == object) return PyLong_FromUnsignedLongLong(each.calls);
  }
  return PyLong_FromLong(0);
}

PyObject* py_woken_call(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!checked(args, count, 3, "woken_call(function, fault, after)")) return nullptr;
  Wrapped* wrapped = new_wrapped(args[0], args[1], call_woken);
  if (wrapped != nullptr) wrapped->after = keep(args[2]);
  return made(wrapped);
}

PyObject* py_wake(PyObject*, PyObject* wrapped) {
  if (!is_wrapped(wrapped)) {
    PyErr_SetString(PyExc_TypeError, "wake(wrapped): takes what woken_call made");
    return nullptr;
  }
  as_wrapped(wrapped)->is_awake = true;
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"counted_call", fast(py_counted_call), METH_FASTCALL,
     "counted_call(function, fault, due): due(first argument, number of its call) before a call; "
     "it "
     "answers after how many calls it is asked again."},
    {"counted", py_counted, METH_O, "counted(address): how many calls were made on that object."},
    {"forget_counted", py_forget_counted, METH_O, "forget_counted(address): the object is gone."},
    {"woken_call", fast(py_woken_call), METH_FASTCALL,
     "woken_call(function, fault, after): after(first argument, result), once after each wake()."},
    {"wake", py_wake, METH_O, "wake(wrapped): the next call of a woken_call is told."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

int add_counted_call(PyObject* module) noexcept { return PyModule_AddFunctions(module, methods); }

}  // namespace pilotlight
