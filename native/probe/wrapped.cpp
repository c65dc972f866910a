// native/probe/wrapped.cpp
#include "probe/wrapped.h"

#include <structmember.h>

#include <cstddef>
#include <cstring>

namespace pilotlight {
namespace {

PyTypeObject* wrapped_type = nullptr;

PyObject* bare(PyObject* object) noexcept {
  return is_wrapped(object) ? as_wrapped(object)->function : object;
}

int traverse(PyObject* self, visitproc visit, void* arg) {
  Wrapped* wrapped = as_wrapped(self);
  Py_VISIT(Py_TYPE(self));
  Py_VISIT(wrapped->function);
  Py_VISIT(wrapped->fault);
  Py_VISIT(wrapped->before);
  Py_VISIT(wrapped->after);
  Py_VISIT(wrapped->output);
  return 0;
}

int clear(PyObject* self) {
  Wrapped* wrapped = as_wrapped(self);
  Py_CLEAR(wrapped->fault);
  Py_CLEAR(wrapped->before);
  Py_CLEAR(wrapped->after);
  Py_CLEAR(wrapped->output);
  Py_CLEAR(wrapped->name);
  return 0;
}

void dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  PyObject_GC_UnTrack(self);
  if (as_wrapped(self)->weak != nullptr) PyObject_ClearWeakRefs(self);
  clear(self);
  Py_XDECREF(as_wrapped(self)->function);
  type->tp_free(self);
  Py_DECREF(type);
}

// The function's own attributes first; only what makes us callable and bindable is ours.
PyObject* get_attribute(PyObject* self, PyObject* name) {
  static const char* const ours[] = {"__class__",  "__wrapped__",   "__call__",     "__get__",
                                     "__reduce__", "__reduce_ex__", "__deepcopy__", "__copy__"};
  for (const char* own : ours) {
    if (PyUnicode_CompareWithASCIIString(name, own) == 0) {
      return PyObject_GenericGetAttr(self, name);
    }
  }
  PyObject* found = PyObject_GetAttr(as_wrapped(self)->function, name);
  if (found != nullptr || !PyErr_ExceptionMatches(PyExc_AttributeError)) return found;
  PyErr_Clear();
  return PyObject_GenericGetAttr(self, name);
}

int set_attribute(PyObject* self, PyObject* name, PyObject* value) {
  return PyObject_SetAttr(as_wrapped(self)->function, name, value);
}

PyObject* bind(PyObject* self, PyObject* instance, PyObject*) {
  if (instance == nullptr || instance == Py_None) {
    Py_INCREF(self);
    return self;
  }
  return PyMethod_New(self, instance);
}

PyObject* compare(PyObject* self, PyObject* other, int operation) {
  return PyObject_RichCompare(bare(self), bare(other), operation);
}

Py_hash_t hash(PyObject* self) { return PyObject_Hash(as_wrapped(self)->function); }

PyObject* repr(PyObject* self) { return PyObject_Repr(as_wrapped(self)->function); }

// By its name, where pickle finds it again; nothing of ours gets into a file.
PyObject* reduce(PyObject* self, PyObject*) {
  PyObject* function = as_wrapped(self)->function;
  if (PyFunction_Check(function) || PyCFunction_Check(function)) {
    return PyObject_GetAttrString(function, "__qualname__");
  }
  // Any other callable as itself, by next(iter([function])): a call that returns what it is given.
  PyObject* builtins = PyEval_GetBuiltins();
  PyObject* next = PyDict_GetItemString(builtins, "next");
  PyObject* only = Py_BuildValue("[O]", function);
  PyObject* iterator = only != nullptr ? PyObject_GetIter(only) : nullptr;
  Py_XDECREF(only);
  if (next == nullptr || iterator == nullptr) {
    Py_XDECREF(iterator);
    return nullptr;
  }
  return Py_BuildValue("O(N)", next, iterator);
}

// What a jitted function must have; looked for in the type by those who do not ask the object.
PyObject* forwarded(PyObject* self, void* name) {
  return PyObject_GetAttrString(as_wrapped(self)->function, static_cast<const char*>(name));
}

PyObject* same(PyObject* self, PyObject*) {
  Py_INCREF(self);
  return self;
}

PyMethodDef methods[] = {{"__reduce__", reduce, METH_NOARGS, nullptr},
                         {"__reduce_ex__", reduce, METH_O, nullptr},
                         {"__copy__", same, METH_NOARGS, nullptr},
                         {"__deepcopy__", same, METH_O, nullptr},
                         {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {{"lower", forwarded, nullptr, nullptr, const_cast<char*>("lower")},
                            {"trace", forwarded, nullptr, nullptr, const_cast<char*>("trace")},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyMemberDef members[] = {
    {"__wrapped__", T_OBJECT, offsetof(Wrapped, function), READONLY, nullptr},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Wrapped, vectorcall), READONLY, nullptr},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Wrapped, weak), READONLY, nullptr},
    {nullptr, 0, 0, 0, nullptr}};

PyType_Slot slots[] = {{Py_tp_dealloc, reinterpret_cast<void*>(dealloc)},
                       {Py_tp_traverse, reinterpret_cast<void*>(traverse)},
                       {Py_tp_clear, reinterpret_cast<void*>(clear)},
                       {Py_tp_call, reinterpret_cast<void*>(PyVectorcall_Call)},
                       {Py_tp_getattro, reinterpret_cast<void*>(get_attribute)},
                       {Py_tp_setattro, reinterpret_cast<void*>(set_attribute)},
                       {Py_tp_descr_get, reinterpret_cast<void*>(bind)},
                       {Py_tp_richcompare, reinterpret_cast<void*>(compare)},
                       {Py_tp_hash, reinterpret_cast<void*>(hash)},
                       {Py_tp_repr, reinterpret_cast<void*>(repr)},
                       {Py_tp_methods, methods},
                       {Py_tp_members, members},
                       {Py_tp_getset, properties},
                       {0, nullptr}};

PyType_Spec spec = {"pilotlight._probe.Wrapped", sizeof(Wrapped), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_HAVE_VECTORCALL |
                        Py_TPFLAGS_METHOD_DESCRIPTOR | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                    slots};

}  // namespace

bool is_wrapped(PyObject* object) noexcept { return Py_TYPE(object) == wrapped_type; }

Wrapped* new_wrapped(PyObject* function, PyObject* fault, vectorcallfunc call) noexcept {
  auto* wrapped = as_wrapped(wrapped_type->tp_alloc(wrapped_type, 0));
  if (wrapped == nullptr) return nullptr;
  wrapped->vectorcall = call;
  wrapped->function = function;
  wrapped->is_pythons = PyFunction_Check(function);
  wrapped->fault = fault;
  Py_INCREF(function);
  Py_INCREF(fault);
  return wrapped;
}

void tell_fault(Wrapped* wrapped) noexcept {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  if (value != nullptr && traceback != nullptr) PyException_SetTraceback(value, traceback);
  PyObject* told = PyObject_CallOneArg(wrapped->fault, value != nullptr ? value : Py_None);
  if (told == nullptr) PyErr_Clear();
  Py_XDECREF(told);
  Py_XDECREF(type);
  Py_XDECREF(value);
  Py_XDECREF(traceback);
}

void tell_after(Wrapped* wrapped, PyObject* token, PyObject** result) noexcept {
  KeptError kept;
  PyObject* told =
      PyObject_CallFunctionObjArgs(wrapped->after, token, *result ? *result : Py_None, nullptr);
  if (told != nullptr || swallow(wrapped)) {
    Py_XDECREF(told);
    return;
  }
  if (*result == nullptr) {
    PyErr_Clear();  // the function's own exception is the one to be seen
    return;
  }
  Py_CLEAR(*result);
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  kept.replace(type, value, traceback);
}

int add_wrapped_type(PyObject* module) noexcept {
  PyObject* type = PyType_FromSpec(&spec);
  if (type == nullptr) return -1;
  wrapped_type = reinterpret_cast<PyTypeObject*>(type);
  // One reference stays with us for good.
  Py_INCREF(type);
  if (PyModule_AddObject(module, "Wrapped", type) == 0) return 0;
  Py_DECREF(type);
  return -1;
}

}  // namespace pilotlight
