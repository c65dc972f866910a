// native/probe/framework.cpp: what the adapters of frameworks put around functions, as far as it
// happens too often for Python.
#include "probe/module_names.h"
#include "probe/phase.h"
#include "probe/probe.h"
#include "probe/wrapped.h"

namespace pilotlight {
namespace {

// Modules inside modules, down to here, are told by name.
constexpr uint32_t kModuleDepth = 3;

ModuleNames module_names;
uint32_t module_names_run = 0;
constexpr int64_t kSecondNs = 1000000000;
constexpr int64_t kOutputsNs = kSecondNs / 2;

PyObject* each_second = nullptr;
int64_t next_second_ns = 0;
bool outputs_wanted = false;  // in this step
bool outputs_seen = false;
int64_t next_outputs_ns = 0;
PyObject* training_text = nullptr;
PyObject* modules_text = nullptr;
PyObject* name_text = nullptr;

Wrapped* as_wrapped(PyObject* object) noexcept { return reinterpret_cast<Wrapped*>(object); }

void write_span(RecordType type, uint32_t name, uint8_t kind) noexcept {
  RingWriter* ring = python_ring();
  if (ring == nullptr) return;
  RecordHeader header = {};
  header.flags = kind;
  ring->write(type, name, header);
}

// An error of ours is swallowed; an interrupt or an exit is the program's and goes on.
bool swallow(Wrapped* wrapped) noexcept {
  if (!PyErr_ExceptionMatches(PyExc_Exception)) return false;
  tell_fault(wrapped);
  return true;
}

PyObject* call_phase(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  Wrapped* wrapped = as_wrapped(self);
  bool entered = enter_phase(wrapped->phase);
  PyObject* result = PyObject_Vectorcall(wrapped->function, args, count, names);
  if (entered) leave_phase(wrapped->phase);
  return result;
}

PyObject* call_backward(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  Wrapped* wrapped = as_wrapped(self);
  bool entered = enter_phase(Phase::kBackward);
  backward_begins();
  PyObject* result = PyObject_Vectorcall(wrapped->function, args, count, names);
  backward_ends();
  if (entered) leave_phase(Phase::kBackward);
  return result;
}

PyObject* call_optimizer(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  PyObject* optimizer = PyVectorcall_NARGS(count) > 0 ? args[0] : nullptr;
  bool begun = optimizer != nullptr && optimizer_begins(optimizer);
  PyObject* result = PyObject_Vectorcall(as_wrapped(self)->function, args, count, names);
  if (begun) optimizer_ends(optimizer, result != nullptr);
  return result;
}

PyObject* call_step(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  step_call_begins();
  thread_phases().step_calls++;
  PyObject* result = PyObject_Vectorcall(as_wrapped(self)->function, args, count, names);
  ThreadPhases& mine = thread_phases();
  if (mine.step_calls > 0) mine.step_calls--;
  return result;
}

PyObject* call_range(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  Wrapped* wrapped = as_wrapped(self);
  uint32_t name = Probe::get().collecting() ? name_id(wrapped->name) : 0;
  if (name != 0) write_span(RecordType::kBegin, name, wrapped->kind);
  PyObject* result = PyObject_Vectorcall(wrapped->function, args, count, names);
  if (name != 0) write_span(RecordType::kEnd, name, wrapped->kind);
  return result;
}

PyObject* call_function(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  PyObject* function = as_wrapped(self)->function;
  function_called(function);
  // Functions that it calls while it is traced are part of it.
  thread_phases().step_calls++;
  PyObject* result = PyObject_Vectorcall(function, args, count, names);
  ThreadPhases& mine = thread_phases();
  if (mine.step_calls > 0) mine.step_calls--;
  return result;
}

PyObject* call_around(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  Wrapped* wrapped = as_wrapped(self);
  PyObject* token = PyObject_Vectorcall(wrapped->before, args, count, names);
  if (token == nullptr && !swallow(wrapped)) return nullptr;
  PyObject* result = PyObject_Vectorcall(wrapped->function, args, count, names);
  if (token != nullptr && token != Py_None) {
    PyObject* told;
    {
      KeptError kept;
      told =
          PyObject_CallFunctionObjArgs(wrapped->after, token, result ? result : Py_None, nullptr);
      if (told == nullptr && swallow(wrapped)) told = Py_NewRef(Py_None);
      if (told == nullptr && result == nullptr) {
        PyErr_Clear();  // the function's own exception is the one to be seen
        told = Py_NewRef(Py_None);
      }
      if (told == nullptr) {
        // An interrupt reached us: it goes on in place of the result.
        Py_DECREF(token);
        Py_DECREF(result);
        PyObject *type, *value, *traceback;
        PyErr_Fetch(&type, &value, &traceback);
        kept.replace(type, value, traceback);
        return nullptr;
      }
    }
    Py_DECREF(told);
  }
  Py_XDECREF(token);
  return result;
}

// record_function.__enter__ and __exit__: the framework's own labels are told as phases already.
uint32_t annotation_name(PyObject* annotation) noexcept {
  if (!Probe::get().collecting()) return 0;
  KeptError kept;
  PyObject* name = PyObject_GetAttr(annotation, name_text);
  uint32_t id = 0;
  if (name != nullptr && PyUnicode_Check(name)) {
    std::string_view text = utf8_of(name);
    bool is_own =
        text.substr(0, 10) == "Optimizer." || text.substr(0, 21) == "enumerate(DataLoader)";
    if (!is_own) id = name_id(name);
  }
  Py_XDECREF(name);
  PyErr_Clear();
  return id;
}

PyObject* call_enter(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  uint32_t name = PyVectorcall_NARGS(count) > 0 ? annotation_name(args[0]) : 0;
  if (name != 0) write_span(RecordType::kBegin, name, static_cast<uint8_t>(SpanKind::kRange));
  return PyObject_Vectorcall(as_wrapped(self)->function, args, count, names);
}

PyObject* call_exit(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  uint32_t name = PyVectorcall_NARGS(count) > 0 ? annotation_name(args[0]) : 0;
  PyObject* result = PyObject_Vectorcall(as_wrapped(self)->function, args, count, names);
  if (name != 0) write_span(RecordType::kEnd, name, static_cast<uint8_t>(SpanKind::kRange));
  return result;
}

bool has_parts(PyObject* module) noexcept {
  PyObject* parts = PyObject_GetAttr(module, modules_text);
  bool found = parts != nullptr && PyDict_Check(parts) && PyDict_GET_SIZE(parts) > 0;
  Py_XDECREF(parts);
  PyErr_Clear();
  return found;
}

uint32_t type_name(PyObject* object) noexcept {
  PyTypeObject* type = Py_TYPE(object);
  if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) == 0) return 0;
  return name_id(reinterpret_cast<PyHeapTypeObject*>(type)->ht_name);
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

void outermost_module(Wrapped* wrapped, PyObject* module) noexcept {
  if (is_training()) return;
  bool may_train = is_true(PyObject_GetAttr(module, training_text)) &&
                   is_true(PyObject_CallNoArgs(wrapped->after));
  module_called(module, may_train);
}

// False with an interrupt, which is the program's.
bool tell_output(Wrapped* wrapped, uint32_t depth, PyObject* module, PyObject* result) noexcept {
  KeptError kept;
  PyObject* number = PyLong_FromUnsignedLong(depth);
  PyObject* told = PyObject_CallFunctionObjArgs(wrapped->output, number, module,
                                                result != nullptr ? result : Py_None, nullptr);
  Py_XDECREF(number);
  Py_XDECREF(told);
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

PyObject* call_module(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  Wrapped* wrapped = as_wrapped(self);
  ThreadPhases& before = thread_phases();
  // Modules that run again inside a backward belong to it.
  if (before.modules >= kModuleDepth || PyVectorcall_NARGS(count) == 0 ||
      (before.modules == 0 && backward_under_way())) {
    return PyObject_Vectorcall(wrapped->function, args, count, names);
  }
  bool is_outermost = before.modules == 0;
  bool entered = false;
  if (is_outermost) {
    before.outputs = outputs_wanted;
    outputs_seen = outputs_seen || outputs_wanted;
    outermost_module(wrapped, args[0]);
    entered = enter_phase(Phase::kForward);
  }
  uint32_t name = module_name(wrapped, args[0], is_outermost);
  PyObject* result = nullptr;
  if (PyErr_Occurred() == nullptr) {
    if (name != 0) write_span(RecordType::kBegin, name, static_cast<uint8_t>(SpanKind::kModule));
    thread_phases().modules++;
    result = PyObject_Vectorcall(wrapped->function, args, count, names);
    ThreadPhases& after = thread_phases();
    if (after.modules > 0) after.modules--;
    if (name != 0) write_span(RecordType::kEnd, name, static_cast<uint8_t>(SpanKind::kModule));
    if (after.outputs && (result != nullptr || is_outermost) &&
        !tell_output(wrapped, after.modules, args[0], result)) {
      Py_CLEAR(result);
    }
  }
  if (entered) leave_phase(Phase::kForward);
  return result;
}

bool checked(PyObject* const* args, Py_ssize_t count, Py_ssize_t wanted, const char* usage) {
  if (count == wanted && PyCallable_Check(args[0])) return true;
  PyErr_SetString(PyExc_TypeError, usage);
  return false;
}

PyObject* keep(PyObject* object) noexcept {
  Py_INCREF(object);
  return object;
}

PyObject* made(Wrapped* wrapped) noexcept { return reinterpret_cast<PyObject*>(wrapped); }

PyObject* py_phase_call(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!checked(args, count, 3, "phase_call(function, fault, phase)")) return nullptr;
  long phase = PyLong_AsLong(args[2]);
  if (phase < 0 || phase >= static_cast<long>(Phase::kCount)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "no such phase");
    return nullptr;
  }
  bool is_backward = phase == static_cast<long>(Phase::kBackward);
  Wrapped* wrapped = new_wrapped(args[0], args[1], is_backward ? call_backward : call_phase);
  if (wrapped != nullptr) wrapped->phase = static_cast<Phase>(phase);
  return made(wrapped);
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

PyObject* py_around_call(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!checked(args, count, 4, "around_call(function, fault, before, after)")) return nullptr;
  Wrapped* wrapped = new_wrapped(args[0], args[1], call_around);
  if (wrapped == nullptr) return nullptr;
  wrapped->before = keep(args[2]);
  wrapped->after = keep(args[3]);
  return made(wrapped);
}

PyObject* py_range_call(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!checked(args, count, 4, "range_call(function, fault, name, kind)")) return nullptr;
  if (!PyUnicode_Check(args[2]) || !PyLong_Check(args[3])) {
    PyErr_SetString(PyExc_TypeError, "range_call(function, fault, name, kind)");
    return nullptr;
  }
  Wrapped* wrapped = new_wrapped(args[0], args[1], call_range);
  if (wrapped == nullptr) return nullptr;
  wrapped->name = keep(args[2]);
  wrapped->kind = static_cast<uint8_t>(word_of(args[3]));
  return made(wrapped);
}

template <vectorcallfunc call>
PyObject* py_plain_call(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!checked(args, count, 2, "takes a function and a fault handler")) return nullptr;
  return made(new_wrapped(args[0], args[1], call));
}

PyObject* py_optimizer_skipped(PyObject*, PyObject* optimizer) {
  optimizer_skipped(optimizer);
  Py_RETURN_NONE;
}

PyObject* py_optimizer_calls(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(optimizer_calls());
}

PyObject* py_enter_phase(PyObject*, PyObject* phase) {
  long number = PyLong_AsLong(phase);
  if (number < 0 || number >= static_cast<long>(Phase::kCount)) {
    if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "no such phase");
    return nullptr;
  }
  return PyBool_FromLong(enter_phase(static_cast<Phase>(number)));
}

PyObject* py_leave_phase(PyObject*, PyObject* phase) {
  long number = PyLong_AsLong(phase);
  if (number == -1 && PyErr_Occurred()) return nullptr;
  if (number >= 0 && number < static_cast<long>(Phase::kCount)) {
    leave_phase(static_cast<Phase>(number));
  }
  Py_RETURN_NONE;
}

PyObject* py_each_second(PyObject*, PyObject* function) {
  Py_XDECREF(each_second);
  each_second = function == Py_None ? nullptr : keep(function);
  Py_RETURN_NONE;
}

PyObject* py_automatic_step(PyObject*, PyObject* number) {
  steps_are_told();
  if (number == Py_None) {
    automatic_step();
  } else {
    int64_t value = PyLong_AsLongLong(number);
    if (value == -1 && PyErr_Occurred()) return nullptr;
    automatic_step(value);
  }
  Py_RETURN_NONE;
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

PyObject* py_span(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 4 || !PyUnicode_Check(args[0]) || !PyLong_Check(args[1]) || !PyLong_Check(args[2]) ||
      !PyLong_Check(args[3])) {
    PyErr_SetString(PyExc_TypeError, "span(name, kind, start_ticks, end_ticks)");
    return nullptr;
  }
  RingWriter* ring = Probe::get().collecting() ? python_ring() : nullptr;
  if (ring == nullptr) Py_RETURN_NONE;
  RecordHeader header = {};
  header.flags = static_cast<uint8_t>(word_of(args[1]));
  uint32_t name = name_id(args[0]);
  ring->write_at(RecordType::kBegin, name, header, word_of(args[2]));
  ring->write_at(RecordType::kEnd, name, header, word_of(args[3]));
  Py_RETURN_NONE;
}

PyCFunction fast(PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"phase_call", fast(py_phase_call), METH_FASTCALL,
     "phase_call(function, fault, phase): calls of the function are that phase."},
    {"module_call", fast(py_module_call), METH_FASTCALL,
     "module_call(function, fault, describe, is_grad_enabled, output): for Module.__call__."},
    {"around_call", fast(py_around_call), METH_FASTCALL,
     "around_call(function, fault, before, after): after(before(*args), result)."},
    {"range_call", fast(py_range_call), METH_FASTCALL,
     "range_call(function, fault, name, kind): calls of the function are spans."},
    {"optimizer_call", fast(py_plain_call<call_optimizer>), METH_FASTCALL,
     "optimizer_call(function, fault): for the step of an optimizer."},
    {"step_call", fast(py_plain_call<call_step>), METH_FASTCALL,
     "step_call(function, fault): a call of the function is a step."},
    {"function_call", fast(py_plain_call<call_function>), METH_FASTCALL,
     "function_call(function, fault): steps are told from the rhythm of such calls."},
    {"enter_call", fast(py_plain_call<call_enter>), METH_FASTCALL,
     "enter_call(function, fault): for an __enter__ whose object has a name."},
    {"exit_call", fast(py_plain_call<call_exit>), METH_FASTCALL,
     "exit_call(function, fault): for the __exit__ of the same."},
    {"optimizer_skipped", py_optimizer_skipped, METH_O,
     "optimizer_skipped(optimizer): its step was left out, and is over all the same."},
    {"optimizer_calls", py_optimizer_calls, METH_NOARGS, "How many steps optimizers have begun."},
    {"enter_phase", py_enter_phase, METH_O, "enter_phase(phase): False if it goes on already."},
    {"leave_phase", py_leave_phase, METH_O, "leave_phase(phase)"},
    {"each_second", py_each_second, METH_O,
     "each_second(function or None): called after a step, at most once a second."},
    {"automatic_step", py_automatic_step, METH_O,
     "automatic_step(number or None): a step begins, unless the program tells its steps itself."},
    {"name_module", fast(py_name_module), METH_FASTCALL, "name_module(module, name)"},
    {"forget_module", py_forget_module, METH_O, "forget_module(address): it is gone."},
    {"span", fast(py_span), METH_FASTCALL, "span(name, kind, start_ticks, end_ticks)"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

void after_step() noexcept {
  if (each_second == nullptr) return;
  int64_t now_ns = clock_ns(CLOCK_MONOTONIC_COARSE);
  if (outputs_seen) next_outputs_ns = now_ns + kOutputsNs;
  outputs_seen = false;
  outputs_wanted = now_ns >= next_outputs_ns && Probe::get().collecting();
  if (now_ns < next_second_ns) return;
  next_second_ns = now_ns + kSecondNs;
  KeptError kept;
  PyObject* told = PyObject_CallNoArgs(each_second);
  if (told == nullptr) PyErr_Clear();
  Py_XDECREF(told);
}

int add_framework(PyObject* module) noexcept {
  training_text = PyUnicode_InternFromString("training");
  modules_text = PyUnicode_InternFromString("_modules");
  name_text = PyUnicode_InternFromString("name");
  if (training_text == nullptr || modules_text == nullptr || name_text == nullptr) return -1;
  if (add_wrapped_type(module) < 0) return -1;
  return PyModule_AddFunctions(module, methods);
}

}  // namespace pilotlight
