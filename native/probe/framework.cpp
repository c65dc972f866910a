// native/probe/framework.cpp: what the adapters of frameworks put around functions, as far as it
// happens too often for Python.
#include <cstring>

#include "probe/counted_call.h"
#include "probe/hot.h"
#include "probe/module_call.h"
#include "probe/module_choice.h"
#include "probe/phase.h"
#include "probe/probe.h"
#include "probe/step_rule.h"
#include "probe/wrapped.h"

namespace pilotlight {
namespace {

constexpr int64_t kSecondNs = 1000000000;

// The clock is asked no more often than it moves, about.
constexpr uint64_t kLookTicks = 4000000;

PyObject* each_second = nullptr;
uint64_t looked_ticks = 0;
int64_t next_second_ns = 0;
PyObject* name_text = nullptr;

PILOTLIGHT_HOT PyObject* call_phase(PyObject* self, PyObject* const* args, size_t count,
                                    PyObject* names) {
  Wrapped* wrapped = as_wrapped(self);
  ThreadPhases& mine = thread_phases();
  bool entered = enter_phase(mine, wrapped->phase);
  PyObject* result = call_held(wrapped, args, count, names);
  if (entered) leave_phase(current(mine), wrapped->phase);
  return result;
}

PILOTLIGHT_HOT PyObject* call_backward(PyObject* self, PyObject* const* args, size_t count,
                                       PyObject* names) {
  Wrapped* wrapped = as_wrapped(self);
  ThreadPhases& mine = thread_phases();
  bool entered = enter_phase(mine, Phase::kBackward);
  backward_begins(mine);
  PyObject* result = call_held(wrapped, args, count, names);
  backward_ends(result != nullptr);
  if (entered) leave_phase(current(mine), Phase::kBackward);
  return result;
}

PILOTLIGHT_HOT PyObject* call_optimizer(PyObject* self, PyObject* const* args, size_t count,
                                        PyObject* names) {
  PyObject* optimizer = PyVectorcall_NARGS(count) > 0 ? args[0] : nullptr;
  ThreadPhases& mine = thread_phases();
  bool begun = optimizer != nullptr && optimizer_begins(mine, optimizer);
  PyObject* result = call_held(as_wrapped(self), args, count, names);
  if (begun) optimizer_ends(current(mine), optimizer, result != nullptr);
  return result;
}

PyObject* call_step(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  ThreadPhases& mine = thread_phases();
  step_call_begins(mine);
  PyObject* result = call_held(as_wrapped(self), args, count, names);
  step_call_ends(current(mine));
  return result;
}

PyObject* call_range(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  Wrapped* wrapped = as_wrapped(self);
  uint32_t name = Probe::get().collecting() ? name_id(wrapped->name) : 0;
  if (name != 0) write_span(RecordType::kBegin, name, wrapped->kind);
  PyObject* result = call_held(wrapped, args, count, names);
  if (name != 0) write_span(RecordType::kEnd, name, wrapped->kind);
  return result;
}

PyObject* call_timed(PyObject* function, const void* key, PyObject* const* args, size_t count,
                     PyObject* names) {
  function_called(key);
  ThreadPhases& mine = thread_phases();
  // Functions that it calls while it is traced are part of it.
  if (mine.step_calls++ == 0) mine.call = {function, args, count, names};
  PyObject* result = PyObject_Vectorcall(function, args, count, names);
  if (current(mine).step_calls > 0 && --mine.step_calls == 0) mine.call = {};
  return result;
}

PyObject* call_function(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  PyObject* function = as_wrapped(self)->function;
  return call_timed(function, function, args, count, names);
}

PyObject* call_method(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  PyObject* function = as_wrapped(self)->function;
  return call_timed(function, PyVectorcall_NARGS(count) > 0 ? args[0] : function, args, count,
                    names);
}

PyObject* call_around(PyObject* self, PyObject* const* args, size_t count, PyObject* names) {
  Wrapped* wrapped = as_wrapped(self);
  PyObject* token = PyObject_Vectorcall(wrapped->before, args, count, names);
  if (token == nullptr && !swallow(wrapped)) return nullptr;
  PyObject* result = call_held(wrapped, args, count, names);
  if (token != nullptr && token != Py_None) tell_after(wrapped, token, &result);
  Py_XDECREF(token);
  return result;
}

constexpr std::string_view kForwardOfDdp = "DistributedDataParallel.forward";

PILOTLIGHT_COLD bool is_seldom_label(PyObject* label) noexcept {
  std::string_view text = utf8_of(label);
  return text.substr(0, 21) == "enumerate(DataLoader)" || text == kForwardOfDdp;
}

// Labels that the framework gives to what is told as phases already. Those of optimizers, two in
// every step, without a call.
inline bool is_optimizers_label(PyObject* label) noexcept {
  constexpr std::string_view kOptimizer = "Optimizer.";
  return PyUnicode_IS_COMPACT_ASCII(label) &&
         PyUnicode_GET_LENGTH(label) > Py_ssize_t{kOptimizer.size()} &&
         std::memcmp(PyUnicode_DATA(label), kOptimizer.data(), kOptimizer.size()) == 0;
}

inline bool is_frameworks_own(PyObject* label) noexcept {
  return is_optimizers_label(label) || is_seldom_label(label);
}

// record_function.__init__(self, name, ...); nullptr where the name is not where it belongs.
PyObject* label_of(PyObject* const* args, size_t count, PyObject* names) noexcept {
  Py_ssize_t positional = PyVectorcall_NARGS(count);
  PyObject* label = positional > 1 ? args[1] : nullptr;
  Py_ssize_t named = names != nullptr ? PyTuple_GET_SIZE(names) : 0;
  for (Py_ssize_t i = 0; i < named; i++) {
    if (PyUnicode_Compare(PyTuple_GET_ITEM(names, i), name_text) == 0) label = args[positional + i];
  }
  return label != nullptr && PyUnicode_Check(label) ? label : nullptr;
}

// False with an interrupt.
PILOTLIGHT_COLD bool look_at_label(Wrapped* wrapped, PyObject* const* args, size_t count,
                                   PyObject* names) noexcept {
  PyObject* label = label_of(args, count, names);
  if (label != nullptr && is_frameworks_own(label)) {
    // A constant of the framework's code, the same object in every step: that of DDP.
    if (wrapped->name == nullptr && utf8_of(label) == kForwardOfDdp) wrapped->name = keep(label);
    return true;
  }
  PyObject* told = PyObject_CallNoArgs(wrapped->before);
  Py_XDECREF(told);
  return told != nullptr || swallow(wrapped);
}

PILOTLIGHT_HOT PyObject* call_label(PyObject* self, PyObject* const* args, size_t count,
                                    PyObject* names) {
  Wrapped* wrapped = as_wrapped(self);
  bool is_plain = PyVectorcall_NARGS(count) > 1 && PyUnicode_Check(args[1]);
  bool is_known = is_plain && (args[1] == wrapped->name || is_optimizers_label(args[1]));
  if (__builtin_expect(!is_known, 0) && !look_at_label(wrapped, args, count, names)) return nullptr;
  return call_held(wrapped, args, count, names);
}

PILOTLIGHT_HOT uint32_t annotation_name(PyObject* annotation) noexcept {
  if (!Probe::get().collecting()) return 0;
  PyObject* name = PyObject_GetAttr(annotation, name_text);
  uint32_t id = 0;
  if (name != nullptr && PyUnicode_Check(name) && !is_frameworks_own(name)) id = name_id(name);
  if (name == nullptr) PyErr_Clear();
  Py_XDECREF(name);
  return id;
}

// Kept from enter to exit, so that the name is looked for once.
void annotation_begins(PyObject* annotation, uint32_t name) noexcept {
  ThreadPhases& mine = thread_phases();
  if (mine.annotations == ThreadPhases::kMostAnnotations) {
    mine.annotations = 0;
    mine.annotations_forgotten = true;
  }
  mine.annotation[mine.annotations++] = {annotation, name};
  write_span(RecordType::kBegin, name, static_cast<uint8_t>(SpanKind::kRange));
}

uint32_t annotation_ends(ThreadPhases& mine, PyObject* annotation) noexcept {
  // Those above it were left without an exit.
  for (uint32_t i = mine.annotations; i-- > 0;) {
    if (mine.annotation[i].of != annotation) continue;
    mine.annotations = i;
    return mine.annotation[i].name;
  }
  return mine.annotations_forgotten ? annotation_name(annotation) : 0;
}

PILOTLIGHT_HOT PyObject* call_enter(PyObject* self, PyObject* const* args, size_t count,
                                    PyObject* names) {
  uint32_t name = PyVectorcall_NARGS(count) > 0 ? annotation_name(args[0]) : 0;
  if (name != 0) annotation_begins(args[0], name);
  return call_held(as_wrapped(self), args, count, names);
}

PILOTLIGHT_HOT PyObject* call_exit(PyObject* self, PyObject* const* args, size_t count,
                                   PyObject* names) {
  ThreadPhases& mine = thread_phases();
  bool is_told = mine.annotations != 0 || mine.annotations_forgotten;
  uint32_t name = is_told && PyVectorcall_NARGS(count) > 0 ? annotation_ends(mine, args[0]) : 0;
  PyObject* result = call_held(as_wrapped(self), args, count, names);
  if (name != 0) write_span(RecordType::kEnd, name, static_cast<uint8_t>(SpanKind::kRange));
  return result;
}

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

PyObject* py_around_call(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!checked(args, count, 4, "around_call(function, fault, before, after)")) return nullptr;
  Wrapped* wrapped = new_wrapped(args[0], args[1], call_around);
  if (wrapped == nullptr) return nullptr;
  wrapped->before = keep(args[2]);
  wrapped->after = keep(args[3]);
  return made(wrapped);
}

PyObject* py_label_call(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!checked(args, count, 3, "label_call(function, fault, on_label)")) return nullptr;
  Wrapped* wrapped = new_wrapped(args[0], args[1], call_label);
  if (wrapped != nullptr) wrapped->before = keep(args[2]);
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

PyObject* py_optimizer_made(PyObject*, PyObject* optimizer) {
  optimizer_made(optimizer);
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
  return PyBool_FromLong(enter_phase(thread_phases(), static_cast<Phase>(number)));
}

PyObject* py_enter_compiled(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (!checked(args, count, 2, "enter_compiled(function, may_train)")) return nullptr;
  return PyBool_FromLong(compiled_begins(thread_phases(), args[0], args[1] == Py_True));
}

PyObject* py_leave_phase(PyObject*, PyObject* phase) {
  long number = PyLong_AsLong(phase);
  if (number == -1 && PyErr_Occurred()) return nullptr;
  if (number >= 0 && number < static_cast<long>(Phase::kCount)) {
    leave_phase(thread_phases(), static_cast<Phase>(number));
  }
  Py_RETURN_NONE;
}

PyObject* py_each_second(PyObject*, PyObject* function) {
  Py_XDECREF(each_second);
  each_second = function == Py_None ? nullptr : keep(function);
  Py_RETURN_NONE;
}

PyObject* py_call_under_way(PyObject*, PyObject*) {
  const ThreadPhases::Call& call = thread_phases().call;
  if (call.function == nullptr) Py_RETURN_NONE;
  Py_ssize_t positional = PyVectorcall_NARGS(call.count);
  PyObject* arguments = PyTuple_New(positional);
  PyObject* named = PyDict_New();
  for (Py_ssize_t i = 0; arguments != nullptr && i < positional; i++) {
    PyTuple_SET_ITEM(arguments, i, keep(call.args[i]));
  }
  Py_ssize_t names = named != nullptr && call.names != nullptr ? PyTuple_GET_SIZE(call.names) : 0;
  for (Py_ssize_t i = 0; i < names; i++) {
    if (PyDict_SetItem(named, PyTuple_GET_ITEM(call.names, i), call.args[positional + i]) < 0) {
      Py_CLEAR(named);
      break;
    }
  }
  if (arguments != nullptr && named != nullptr) {
    return Py_BuildValue("ONN", call.function, arguments, named);
  }
  Py_XDECREF(arguments);
  Py_XDECREF(named);
  return nullptr;
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

PyObject* py_automatic_step_ends(PyObject*, PyObject*) {
  step_ends();
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

PILOTLIGHT_COLD void look_after_step() noexcept {
  int64_t now_ns = clock_ns(CLOCK_MONOTONIC_COARSE);
  choose_outputs(now_ns);
  if (now_ns < next_second_ns) return;
  next_second_ns = now_ns + kSecondNs;
  tell_spans();
  KeptError kept;
  PyObject* told = PyObject_CallNoArgs(each_second);
  clear_own_error();
  Py_XDECREF(told);
}

PyMethodDef methods[] = {
    {"phase_call", fast(py_phase_call), METH_FASTCALL,
     "phase_call(function, fault, phase): calls of the function are that phase."},
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
    {"method_call", fast(py_plain_call<call_method>), METH_FASTCALL,
     "method_call(function, fault): the same for a method, by the object that it is called on."},
    {"call_under_way", py_call_under_way, METH_NOARGS,
     "Function, arguments and named arguments of this thread's outermost function_call or "
     "method_call, or None."},
    {"label_call", fast(py_label_call), METH_FASTCALL,
     "label_call(function, fault, on_label): on_label() when one is made that is not the "
     "framework's own."},
    {"enter_call", fast(py_plain_call<call_enter>), METH_FASTCALL,
     "enter_call(function, fault): for an __enter__ whose object has a name."},
    {"exit_call", fast(py_plain_call<call_exit>), METH_FASTCALL,
     "exit_call(function, fault): for the __exit__ of the same."},
    {"optimizer_skipped", py_optimizer_skipped, METH_O,
     "optimizer_skipped(optimizer): its step was left out, and is over all the same."},
    {"optimizer_made", py_optimizer_made, METH_O, "optimizer_made(optimizer): it may step."},
    {"optimizer_calls", py_optimizer_calls, METH_NOARGS, "How many steps optimizers have begun."},
    {"enter_phase", py_enter_phase, METH_O, "enter_phase(phase): False if it goes on already."},
    {"enter_compiled", fast(py_enter_compiled), METH_FASTCALL,
     "enter_compiled(function, may_train): the forward begins, if no phase is under way. False: "
     "nothing to leave."},
    {"leave_phase", py_leave_phase, METH_O, "leave_phase(phase)"},
    {"each_second", py_each_second, METH_O,
     "each_second(function or None): called after a step, at most once a second."},
    {"automatic_step", py_automatic_step, METH_O,
     "automatic_step(number or None): a step begins, unless the program tells its steps itself."},
    {"automatic_step_ends", py_automatic_step_ends, METH_NOARGS,
     "automatic_step_ends(): the step ends here, if it is the last."},
    {"span", fast(py_span), METH_FASTCALL, "span(name, kind, start_ticks, end_ticks)"},
    {nullptr, nullptr, 0, nullptr}};

}  // namespace

PILOTLIGHT_HOT void after_step(uint64_t ticks) noexcept {
  if (each_second == nullptr) return;
  choose_spans();
  if (!module_choice.outputs_seen && ticks - looked_ticks < kLookTicks) return;
  looked_ticks = ticks;
  look_after_step();
}

int add_framework(PyObject* module) noexcept {
  name_text = PyUnicode_InternFromString("name");
  if (name_text == nullptr) return -1;
  if (add_wrapped_type(module) < 0 || add_module_call(module) < 0 || add_counted_call(module) < 0) {
    return -1;
  }
  return PyModule_AddFunctions(module, methods);
}

}  // namespace pilotlight
