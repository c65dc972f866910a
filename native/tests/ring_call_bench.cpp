// native/tests/ring_call_bench.cpp: a Python module with the cheapest call that C can offer.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

namespace {

PyObject* empty(PyObject*, PyObject* const*, Py_ssize_t) { Py_RETURN_NONE; }

PyMethodDef methods[] = {
    {"empty", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(empty)), METH_FASTCALL,
     nullptr},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef module = {PyModuleDef_HEAD_INIT,
                      "ring_call_bench",
                      nullptr,
                      0,
                      methods,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr};

}  // namespace

PyMODINIT_FUNC PyInit_ring_call_bench() { return PyModule_Create(&module); }
