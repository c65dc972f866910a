// native/probe/module_call.cpp
#include "probe/module_call.h"

#include "probe/hot.h"
#include "probe/module_choice.h"
#include "probe/module_names.h"
#include "probe/phase.h"
#include "probe/probe.h"
#include "probe/step_rule.h"
#include "probe/wrapped.h"

namespace pilotlight {
namespace {

// Modules inside modules, down to here, are told by name.
constexpr uint32_t kModuleDepth = 3;

ModuleNames module_names;
uint32_t module_names_run = 0;
PyObject* training_text = nullptr;
PyObject* modules_text = nullptr;

bool has_parts(PyObject* module) noexcept {
  PyObject* parts = PyObject_GetAttr(module, modules_text);
  bool found = parts != nullptr && PyDict_Check(parts) && PyDict_GET_SIZE(parts) > 0;
  Py_XDECREF(parts);
  PyErr_Clear();
  return found;
}

// The last few, so that a loss function is not looked up in every step. The names are kept alive:
// while one is, no other has its address.
struct TypeName {
  PyObject* text;
  uint32_t run;
  uint32_t id;
};
constexpr size_t kTypeNames = 16;
TypeName type_names[kTypeNames] = {};

uint32_t type_name(PyObject* object) noexcept {
  PyTypeObject* type = Py_TYPE(object);
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return 0;
  PyObject* text = reinterpret_cast<PyHeapTypeObject*>(type)->ht_name;
  TypeName& known = type_names[reinterpret_cast<uintptr_t>(text) / 64 % kTypeNames];
  uint32_t run = Probe::get().run_number();
  if (known.text != text || known.run != run || known.id == 0) {
    Py_INCREF(text);
    Py_XDECREF(known.text);
    known = {text, run, name_id(text)};
  }
  return known.id;
}

// 0 while nothing is collected.
uint32_t module_name(Wrapped* wrapped, PyObject* module, bool is_outermost) noexcept {
  Probe& probe = Probe::get();
  if (!probe.collecting()) return 0;
  if (module_names_run != probe.run_number()) {
    module_names.clear();
    module_names_run = probe.run_number();
  }
  uint32_t name = module_names.find(module);
  if (name != 0) return name;
  if (is_outermost && has_parts(module)) {
    PyObject* told = PyObject_CallOneArg(wrapped->before, module);
    if (told == nullptr) {
      if (PyErr_ExceptionMatches(PyExc_Exception)) {
        tell_fault(wrapped);
      } else {
        return 0;  // an interrupt: seen by the caller
      }
    }
    Py_XDECREF(told);
    name = module_names.find(module);
  }
  return name != 0 ? name : type_name(module);
}

bool is_true(PyObject* object) noexcept {
  bool is = object == Py_True;
  Py_XDECREF(object);
  PyErr_Clear();
  return is;
}

PILOTLIGHT_COLD void outermost_module(Wrapped* wrapped, PyObject* module) noexcept {
  bool may_train = is_true(PyObject_GetAttr(module, training_text)) &&
                   is_true(PyObject_CallNoArgs(wrapped->after));
  module_called(module, may_train);
}

// False with an interrupt, which is the program's.
bool tell_output(Wrapped* wrapped, uint32_t depth, PyObject* module, PyObject* result) noexcept {
  KeptError kept;
  int64_t start_ns = clock_ns(CLOCK_MONOTONIC);
  PyObject* number = PyLong_FromUnsignedLong(depth);
  PyObject* told = PyObject_CallFunctionObjArgs(wrapped->output, number, module,
                                                result != nullptr ? result : Py_None, nullptr);
  Py_XDECREF(number);
  Py_XDECREF(told);
  module_choice.outputs_cost_ns += clock_ns(CLOCK_MONOTONIC) - start_ns;
  if (told != nullptr || swallow(wrapped)) return true;
  if (result == nullptr) {
    PyErr_Clear();  // the function's own exception is the one to be seen
    return true;
  }
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  kept.replace(type, value, traceback);
  return false;
}

// The call with everything that is told of it in a step that is chosen for that.
PyObject* call_told(Wrapped* wrapped, ThreadPhases& mine, PyObject* const* args, size_t count,
                    PyObject* names, bool is_outermost) noexcept {
  uint32_t name = module_name(wrapped, args[0], is_outermost);
  if (PyErr_Occurred() != nullptr) return nullptr;
  if (name != 0) write_span(RecordType::kBegin, name, static_cast<uint8_t>(SpanKind::kModule));
  module_choice.calls++;
  mine.modules++;
  PyObject* result = call_held(wrapped, args, count, names);
  if (current(mine).modules > 0) mine.modules--;
  if (name != 0) write_span(RecordType::kEnd, name, static_cast<uint8_t>(SpanKind::kModule));
  if (mine.outputs && (result != nullptr || is_outermost) &&
      !tell_output(wrapped, mine.modules, args[0], result)) {
    Py_CLEAR(result);
  }
  return result;
}

PILOTLIGHT_HOT PyObject* call_outermost(Wrapped* wrapped, ThreadPhases& mine, PyObject* const* args,
                                        size_t count, PyObject* names) noexcept {
  ModuleChoice& chosen = chosen_modules();
  if (++chosen.outermost == kCallsOfAStep) choose_spans();
  mine.spans = chosen.spans;
  mine.outputs = chosen.spans && chosen.outputs;
  chosen.outputs_seen = chosen.outputs_seen || mine.outputs;
  if (!is_training()) {
    outermost_module(wrapped, args[0]);
  } else if (__builtin_expect(!mine.has_step, 0)) {
    forward_begins(mine);
  }
  bool entered = enter_phase(mine, Phase::kForward);
  PyObject* result;
  if (mine.spans) {
    result = call_told(wrapped, mine, args, count, names, true);
  } else {
    mine.is_quiet = true;
    result = call_held(wrapped, args, count, names);
    current(mine).is_quiet = false;
  }
  if (entered) leave_phase(mine, Phase::kForward);
  return result;
}

PILOTLIGHT_HOT PyObject* call_module(PyObject* self, PyObject* const* args, size_t count,
                                     PyObject* names) {
  Wrapped* wrapped = as_wrapped(self);
  ThreadPhases& mine = thread_phases();
  if (!mine.is_quiet && PyVectorcall_NARGS(count) != 0) {
    // Modules that run again inside a backward belong to it.
    if (mine.modules == 0) {
      if (!is_inside_backward(mine)) return call_outermost(wrapped, mine, args, count, names);
    } else if (mine.modules < kModuleDepth && mine.spans) {
      return call_told(wrapped, mine, args, count, names, false);
    }
  }
  return call_held(wrapped, args, count, names);
}

PyObject* py_module_call(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!checked(args, count, 5, "module_call(function, fault, describe, is_grad_enabled, output)")) {
    return nullptr;
  }
  Wrapped* wrapped = new_wrapped(args[0], args[1], call_module);
  if (wrapped == nullptr) return nullptr;
  wrapped->before = keep(args[2]);
  wrapped->after = keep(args[3]);
  wrapped->output = keep(args[4]);
  return made(wrapped);
}

PyObject* py_name_module(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2 || !PyUnicode_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "name_module(module, name)");
    return nullptr;
  }
  module_names.set(args[0], name_id(args[1]));
  Py_RETURN_NONE;
}

PyObject* py_forget_module(PyObject*, PyObject* address) {
  void* module = PyLong_AsVoidPtr(address);
  if (module == nullptr && PyErr_Occurred()) return nullptr;
  module_names.forget(module);
  Py_RETURN_NONE;
}

PyMethodDef methods[] = {
    {"module_call", fast(py_module_call), METH_FASTCALL,
     "module_call(function, fault, describe, is_grad_enabled, output): for Module.__call__."},
    {"name_module", fast(py_name_module), METH_FASTCALL, "name_module(module, name)"},
    {"forget_module", py_forget_module, METH_O, "forget_module(address): it is gone."},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

int add_module_call(PyObject* module) noexcept {
  training_text = PyUnicode_InternFromString("training");
  modules_text = PyUnicode_InternFromString("_modules");
  if (training_text == nullptr || modules_text == nullptr) return -1;
  return PyModule_AddFunctions(module, methods);
}

}  // namespace pilotlight
