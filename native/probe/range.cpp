// native/probe/range.cpp: a named range as a context manager. It keeps only its name, so one object
// may be entered again, nested and by many threads.
#include "probe/module.h"
#include "probe/probe.h"

namespace pilotlight {
namespace {

struct Range {
  PyObject_HEAD PyObject* name;
  uint32_t id;
  uint32_t run;  // of the probe for which the id is valid: a forked child starts anew
  uint8_t kind;  // SpanKind
};

uint32_t id_of(Range* range) noexcept {
  uint32_t run = Probe::get().run_number();
  if (range->run != run) {
    range->id = name_id(range->name);
    range->run = run;
  }
  return range->id;
}

void write(Range* range, RecordType type) noexcept {
  if (!Probe::get().collecting()) return;
  RingWriter* ring = python_ring();
  if (ring == nullptr) return;
  RecordHeader header = {};
  header.flags = range->kind;
  ring->write(type, id_of(range), header);
}

PyObject* range_new(PyTypeObject* type, PyObject* args, PyObject* kwargs) {
  Py_ssize_t count = PyTuple_GET_SIZE(args);
  if (count < 1 || count > 2 || (kwargs != nullptr && PyDict_GET_SIZE(kwargs) != 0) ||
      !PyUnicode_Check(PyTuple_GET_ITEM(args, 0)) ||
      (count == 2 && !PyLong_Check(PyTuple_GET_ITEM(args, 1)))) {
    PyErr_SetString(PyExc_TypeError, "annotate(name): takes one str");
    return nullptr;
  }
  auto* range = reinterpret_cast<Range*>(type->tp_alloc(type, 0));
  if (range == nullptr) return nullptr;
  range->name = PyTuple_GET_ITEM(args, 0);
  range->kind = count == 2 ? static_cast<uint8_t>(word_of(PyTuple_GET_ITEM(args, 1)))
                           : static_cast<uint8_t>(SpanKind::kRange);
  Py_INCREF(range->name);
  return reinterpret_cast<PyObject*>(range);
}

void range_dealloc(PyObject* self) {
  PyTypeObject* type = Py_TYPE(self);
  Py_XDECREF(reinterpret_cast<Range*>(self)->name);
  type->tp_free(self);
  Py_DECREF(type);
}

PyObject* range_enter(PyObject* self, PyObject*) {
  write(reinterpret_cast<Range*>(self), RecordType::kBegin);
  Py_INCREF(self);
  return self;
}

PyObject* range_exit(PyObject* self, PyObject* const*, Py_ssize_t) {
  write(reinterpret_cast<Range*>(self), RecordType::kEnd);
  Py_RETURN_FALSE;
}

PyObject* range_name(PyObject* self, void*) {
  PyObject* name = reinterpret_cast<Range*>(self)->name;
  Py_INCREF(name);
  return name;
}

PyMethodDef methods[] = {
    {"__enter__", range_enter, METH_NOARGS, "Opens the range."},
    {"__exit__", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(range_exit)),
     METH_FASTCALL, "Closes the range."},
    {nullptr, nullptr, 0, nullptr}};

PyGetSetDef properties[] = {{"name", range_name, nullptr, "Its name.", nullptr},
                            {nullptr, nullptr, nullptr, nullptr, nullptr}};

PyType_Slot slots[] = {{Py_tp_new, reinterpret_cast<void*>(range_new)},
                       {Py_tp_dealloc, reinterpret_cast<void*>(range_dealloc)},
                       {Py_tp_methods, methods},
                       {Py_tp_getset, properties},
                       {0, nullptr}};

PyType_Spec spec = {"pilotlight._probe.Range", sizeof(Range), 0,
                    Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

}  // namespace

PyObject* make_range_type() noexcept { return PyType_FromSpec(&spec); }

}  // namespace pilotlight
