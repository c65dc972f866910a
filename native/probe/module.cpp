// native/probe/module.cpp: pilotlight._probe. The hot calls are METH_FASTCALL and raise nothing but
// TypeError for arguments that make no sense; when the probe is off they do nothing.
#include "probe/module.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <string>

#include "probe/forked_exit.h"
#include "probe/hot.h"
#include "probe/phase.h"
#include "probe/probe.h"
#include "probe/step_rule.h"

namespace pilotlight {
namespace {

constexpr Py_ssize_t kMaxCachedNames = 8192;
constexpr Py_ssize_t kMaxNamedThreads = 512;

PyObject* names = nullptr;  // dict of str to int
uint32_t names_run = 0;     // of the probe for which they are valid
std::atomic<int64_t> next_step{0};
std::atomic<bool> has_explicit_steps{false};
thread_local uint64_t gc_start_ticks = 0;

std::string_view text_of(PyObject* text) noexcept {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr) {
    // Lone surrogates have no UTF-8.
    PyErr_Clear();
    return "?";
  }
  return {bytes, static_cast<size_t>(size)};
}

int raise_again(void* exception) {
  auto* raised = static_cast<PyObject*>(exception);
  PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(raised)), raised);
  Py_DECREF(raised);
  return -1;
}

// The name that `threading` has for this thread, if it is loaded and knows it.
std::string_view python_thread_name(PyObject** keep) noexcept {
  PyObject* modules = PyImport_GetModuleDict();
  PyObject* threading = PyDict_GetItemString(modules, "threading");
  if (threading == nullptr) return {};
  PyObject* active = PyObject_GetAttrString(threading, "_active");
  PyObject* ident = PyLong_FromUnsignedLong(PyThread_get_thread_ident());
  PyObject* name = nullptr;
  if (active != nullptr && ident != nullptr && PyDict_Check(active)) {
    PyObject* thread = PyDict_GetItemWithError(active, ident);
    if (thread != nullptr) name = PyObject_GetAttrString(thread, "name");
  }
  Py_XDECREF(active);
  Py_XDECREF(ident);
  PyErr_Clear();
  *keep = name;
  return name != nullptr && PyUnicode_Check(name) ? text_of(name) : std::string_view{};
}

// Runs in the main thread between two bytecodes. `threading` knows its threads by the names that
// people gave them; the kernel, before Python 3.14, does not.
int name_threads(void*) {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* threading = PyDict_GetItemString(PyImport_GetModuleDict(), "threading");
  PyObject* active = threading ? PyObject_GetAttrString(threading, "_active") : nullptr;
  // A copy: asking a thread for its name may run code of the user's.
  PyObject* threads = active && PyDict_Check(active) ? PyDict_Values(active) : nullptr;
  Py_ssize_t count = threads ? PyList_GET_SIZE(threads) : 0;
  for (Py_ssize_t i = 0; i < count && i < kMaxNamedThreads; i++) {
    PyObject* thread = PyList_GET_ITEM(threads, i);
    PyObject* tid = PyObject_GetAttrString(thread, "native_id");
    PyObject* name = PyObject_GetAttrString(thread, "name");
    if (tid && PyLong_Check(tid) && name && PyUnicode_Check(name)) {
      auto number = static_cast<uint32_t>(PyLong_AsUnsignedLongMask(tid));
      Probe::get().name_thread(number, text_of(name));
    }
    Py_XDECREF(tid);
    Py_XDECREF(name);
    clear_own_error();
  }
  Py_XDECREF(threads);
  Py_XDECREF(active);
  clear_own_error();
  PyErr_Restore(type, value, traceback);
  return 0;
}

// Needs no GIL; if the queue of pending calls is full, the next new thread asks again.
void ask_for_thread_names() noexcept { Py_AddPendingCall(name_threads, nullptr); }

PyObject* py_start(PyObject*, PyObject* args) {
  const char* socket_path = nullptr;
  const char* folder = nullptr;
  const char* identity = nullptr;
  Py_ssize_t identity_size = 0;
  long long period_ns = 0;
  if (!PyArg_ParseTuple(args, "sy#Lz:start", &socket_path, &identity, &identity_size, &period_ns,
                        &folder)) {
    return nullptr;
  }
  const char* reason = Probe::get().start({socket_path,
                                           folder,
                                           {identity, static_cast<size_t>(identity_size)},
                                           period_ns,
                                           ask_for_thread_names});
  if (reason == nullptr) Py_RETURN_NONE;
  return PyUnicode_FromString(reason);
}

PyObject* py_stop(PyObject*, PyObject* exception) {
  last_steps();
  RingWriter* ring = python_ring();
  if (ring != nullptr) tell_phases(thread_phases(), ring);
  Probe::get().stop(PyUnicode_Check(exception) ? text_of(exception) : std::string_view{});
  Py_RETURN_NONE;
}

PyObject* py_skip_exit_handlers(PyObject*, PyObject*) {
  skip_earlier_exit_handlers_in_children();
  Py_RETURN_NONE;
}

PyObject* py_turn_off(PyObject*, PyObject* reason) {
  std::string_view text = PyUnicode_Check(reason) ? text_of(reason) : "no reason given";
  Probe::get().turn_off(std::string(text).c_str());
  Py_RETURN_NONE;
}

PyObject* py_set_identity(PyObject*, PyObject* identity) {
  if (!PyBytes_Check(identity)) {
    PyErr_SetString(PyExc_TypeError, "set_identity(json): takes bytes");
    return nullptr;
  }
  Probe::get().set_identity(
      {PyBytes_AS_STRING(identity), static_cast<size_t>(PyBytes_GET_SIZE(identity))});
  Py_RETURN_NONE;
}

PyObject* py_status(PyObject*, PyObject*) {
  ProbeStatus status = Probe::get().status();
  const char* reason = Probe::get().off_reason();
  // A long one may be cut within a letter.
  PyObject* off =
      reason == nullptr
          ? Py_NewRef(Py_None)
          : PyUnicode_DecodeUTF8(reason, static_cast<Py_ssize_t>(strlen(reason)), "replace");
  if (off == nullptr) return nullptr;
  return Py_BuildValue("{s:O,s:O,s:I,s:I,s:L,s:N}", "started", status.started ? Py_True : Py_False,
                       "collecting", status.collecting ? Py_True : Py_False, "agent_pid",
                       status.agent_pid, "refused", status.refused, "period_ns",
                       static_cast<long long>(status.period_ns), "off", off);
}

PILOTLIGHT_COLD PyObject* event_slowly(PyObject* const* args, Py_ssize_t count) {
  if (count != 2 || !PyLong_Check(args[0]) || !PyLong_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "event(a, b): takes two int");
    return nullptr;
  }
  RingWriter* ring = Probe::collecting() ? python_ring() : nullptr;
  if (ring != nullptr) {
    Event event = {};
    event.words[0] = word_of(args[0]);
    event.words[1] = word_of(args[1]);
    ring->write(RecordType::kEvent, 0, event);
  }
  Py_RETURN_NONE;
}

PyObject* py_event(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (__builtin_expect(count == 2 && Probe::collecting(), 1)) {
    RingWriter* ring = known_python_ring();
    Event event = {};
    if (__builtin_expect(ring != nullptr && is_small_int(args[0]) && is_small_int(args[1]), 1)) {
      event.words[0] = word_of_small(args[0]);
      event.words[1] = word_of_small(args[1]);
      if (ring->write_at_once(RecordType::kEvent, 0, event)) Py_RETURN_NONE;
    }
  }
  return event_slowly(args, count);
}

PyObject* py_counter(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2 || !PyUnicode_Check(args[0])) {
    PyErr_SetString(PyExc_TypeError, "counter(name, value): takes a str and a number");
    return nullptr;
  }
  double value = PyFloat_AsDouble(args[1]);
  if (value == -1.0 && PyErr_Occurred()) {
    // Only a number can be too large: no reason to end a job.
    if (!PyErr_ExceptionMatches(PyExc_OverflowError)) return nullptr;
    PyErr_Clear();
    int side = 0;
    if (PyLong_Check(args[1])) PyLong_AsLongLongAndOverflow(args[1], &side);
    value = std::copysign(std::numeric_limits<double>::infinity(), side);
  }
  if (Probe::get().collecting()) {
    RingWriter* ring = python_ring();
    if (ring != nullptr) {
      Counter counter = {};
      counter.value = value;
      ring->write(RecordType::kCounter, name_id(args[0]), counter);
    }
  }
  Py_RETURN_NONE;
}

PyObject* py_mark(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2 || !PyUnicode_Check(args[0]) || !PyLong_Check(args[1])) {
    PyErr_SetString(PyExc_TypeError, "mark(name, value): takes a str and an int");
    return nullptr;
  }
  if (Probe::get().collecting()) {
    RingWriter* ring = python_ring();
    if (ring != nullptr) {
      Value value = {};
      value.value = static_cast<int64_t>(word_of(args[1]));
      ring->write(RecordType::kMark, name_id(args[0]), value);
    }
  }
  Py_RETURN_NONE;
}

PyObject* py_ticks(PyObject*, PyObject*) {
  RingWriter* ring = python_ring();
  return PyLong_FromUnsignedLongLong(ring == nullptr ? 0 : ticks_of(ring->clock()));
}

// Also while paused: steps are what an overhead measurement compares.
PILOTLIGHT_HOT void write_step(int64_t step, uint64_t ticks) noexcept {
  RingWriter* ring = python_ring();
  if (ring == nullptr) return;
  ThreadPhases& mine = thread_phases();
  tell_phases(mine, ring);
  mine.tells_steps = true;
  Value value = {};
  value.value = step;
  if (ticks == 0) ticks = ticks_of(ring->clock());
  ring->write_at(RecordType::kStep, 0, value, ticks);
  Probe::get().note_step(ticks);
  after_step(ticks);
}

PyObject* py_step(PyObject*, PyObject* const* args, Py_ssize_t count) {
  has_explicit_steps.store(true, std::memory_order_relaxed);
  bool is_told = count != 0 && args[0] != Py_None;
  int64_t step = 0;
  if (is_told) {
    int overflow = 0;
    step = PyLong_AsLongLongAndOverflow(args[0], &overflow);
    if (step == -1 && PyErr_Occurred()) return nullptr;
    // What no record can hold counts as a step without a number: no reason to end a job.
    is_told = overflow == 0 && step != std::numeric_limits<int64_t>::max();
  }
  if (is_told) {
    next_step.store(step + 1, std::memory_order_relaxed);
  } else {
    step = next_step.fetch_add(1, std::memory_order_relaxed);
  }
  write_step(step, 0);
  Py_RETURN_NONE;
}

// Before a fork, and so with the GIL kept: what another thread did meanwhile would be forked too.
PyObject* py_threads(PyObject*, PyObject*) {
  return PyLong_FromUnsignedLongLong(process_threads(getpid()));
}

// Never raises: threads call it as they begin.
PyObject* py_name_thread(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count == 2 && PyLong_Check(args[0]) && PyUnicode_Check(args[1])) {
    auto tid = static_cast<uint32_t>(PyLong_AsUnsignedLongMask(args[0]));
    Probe::get().name_thread(tid, text_of(args[1]));
  }
  Py_RETURN_NONE;
}

uint32_t number_in(PyObject* info, const char* key) noexcept {
  PyObject* value = PyDict_GetItemString(info, key);
  if (value == nullptr || !PyLong_Check(value)) return 0;
  return static_cast<uint32_t>(PyLong_AsUnsignedLongMask(value));
}

// For gc.callbacks: called with ("start" | "stop", info).
PyObject* py_gc_callback(PyObject*, PyObject* const* args, Py_ssize_t count) {
  if (count != 2 || !PyUnicode_Check(args[0]) || !PyDict_Check(args[1])) Py_RETURN_NONE;
  if (!Probe::get().collecting()) Py_RETURN_NONE;
  RingWriter* ring = python_ring();
  if (ring == nullptr) Py_RETURN_NONE;
  if (PyUnicode_CompareWithASCIIString(args[0], "start") == 0) {
    gc_start_ticks = ticks_of(ring->clock());
  } else if (gc_start_ticks != 0) {
    Gc gc = {};
    gc.generation = number_in(args[1], "generation");
    gc.collected = number_in(args[1], "collected");
    gc.start_ticks = gc_start_ticks;
    gc_start_ticks = 0;
    ring->write(RecordType::kGc, 0, gc);
  }
  Py_RETURN_NONE;
}

PyCFunction fast(PyObject* (*function)(PyObject*, PyObject* const*, Py_ssize_t)) {
  return reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(function));
}

PyMethodDef methods[] = {
    {"start", py_start, METH_VARARGS,
     "start(socket, identity, period_ns, folder): None, or why the probe did not start."},
    {"stop", py_stop, METH_O, "stop(exception): the interpreter ends in an orderly way."},
    {"skip_earlier_exit_handlers_in_children", py_skip_exit_handlers, METH_NOARGS,
     "skip_earlier_exit_handlers_in_children(): forked ones that exit do without them."},
    {"turn_off", py_turn_off, METH_O, "turn_off(reason): collect nothing more."},
    {"set_identity", py_set_identity, METH_O, "set_identity(json)"},
    {"status", py_status, METH_NOARGS, "What the probe is doing, as a dict."},
    {"event", fast(py_event), METH_FASTCALL, "event(a, b): two free numbers, now."},
    {"counter", fast(py_counter), METH_FASTCALL, "counter(name, value): a value, now."},
    {"mark", fast(py_mark), METH_FASTCALL, "mark(name, value): something happened, now."},
    {"ticks", py_ticks, METH_NOARGS, "Now, on the clock of records; 0 while the probe is off."},
    {"collective", fast(py_collective), METH_FASTCALL,
     "collective(op, group, sequence, bytes, dtype, rank, world, start_ticks, end_ticks, "
     "wait_ticks, flags)"},
    {"step", fast(py_step), METH_FASTCALL, "step(number=None): a step begins now."},
    {"threads", py_threads, METH_NOARGS,
     "Of this process, ours too; 0 if the kernel does not say."},
    {"name_thread", fast(py_name_thread), METH_FASTCALL, "name_thread(tid, name)"},
    {"gc_callback", fast(py_gc_callback), METH_FASTCALL, "For gc.callbacks."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef definition = {PyModuleDef_HEAD_INIT,
                          "pilotlight._probe",
                          "What pilotlight does inside the user's process.",
                          -1,
                          methods,
                          nullptr,
                          nullptr,
                          nullptr,
                          nullptr};

}  // namespace

void clear_own_error() noexcept {
  if (PyErr_Occurred() == nullptr) return;
  if (PyErr_ExceptionMatches(PyExc_Exception) || syscall(SYS_gettid) != getpid()) {
    PyErr_Clear();
    return;
  }
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  Py_XDECREF(type);
  Py_XDECREF(traceback);
  if (value != nullptr && Py_AddPendingCall(raise_again, value) != 0) Py_DECREF(value);
}

PILOTLIGHT_HOT void write_automatic_step(const int64_t* number, uint64_t ticks) noexcept {
  if (has_explicit_steps.load(std::memory_order_relaxed)) return;
  if (number != nullptr) next_step.store(*number, std::memory_order_relaxed);
  write_step(next_step.fetch_add(1, std::memory_order_relaxed), ticks);
}

std::string_view utf8_of(PyObject* text) noexcept { return text_of(text); }

uint32_t name_id(PyObject* name) noexcept {
  Probe& probe = Probe::get();
  if (names_run != probe.run_number()) {
    PyDict_Clear(names);
    names_run = probe.run_number();
  }
  PyObject* known = PyDict_GetItemWithError(names, name);
  if (known != nullptr) return static_cast<uint32_t>(PyLong_AsUnsignedLong(known));
  PyErr_Clear();
  uint32_t id = probe.string(text_of(name));
  // Bounded: a program may make up names without end. Id 0 is asked for again.
  if (id != 0 && PyDict_GET_SIZE(names) < kMaxCachedNames) {
    PyObject* value = PyLong_FromUnsignedLong(id);
    if (value != nullptr) PyDict_SetItem(names, name, value);
    Py_XDECREF(value);
    PyErr_Clear();
  }
  return id;
}

bool is_programs_thread() noexcept {
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* keep = nullptr;
  std::string_view name = python_thread_name(&keep);
  // Threads that only asked `threading` who they are have such a name.
  bool is = !name.empty() && name.substr(0, 6) != "Dummy-";
  Py_XDECREF(keep);
  PyErr_Restore(type, value, traceback);
  return is;
}

RingWriter* attach_by_python_name() noexcept {
  RingWriter* attached = Probe::attach_last();
  if (attached != nullptr) return attached;
  Probe& probe = Probe::get();
  if (!probe.started()) return nullptr;
  // An exception may be set: __exit__ runs while one is under way in some callers.
  PyObject *type, *value, *traceback;
  PyErr_Fetch(&type, &value, &traceback);
  PyObject* keep = nullptr;
  std::string_view name = python_thread_name(&keep);
  probe.attach(name);
  Py_XDECREF(keep);
  PyErr_Restore(type, value, traceback);
  return Probe::attach_last();
}

}  // namespace pilotlight

PyMODINIT_FUNC PyInit__probe() {
  using namespace pilotlight;
  Probe::create();
  PyObject* module = PyModule_Create(&definition);
  if (module == nullptr) return nullptr;
  names = PyDict_New();
  PyObject* range = make_range_type();
  if (names == nullptr || range == nullptr || PyModule_AddObject(module, "Range", range) < 0) {
    Py_XDECREF(range);
    Py_DECREF(module);
    return nullptr;
  }
  if (add_framework(module) < 0) {
    Py_DECREF(module);
    return nullptr;
  }
  return module;
}
