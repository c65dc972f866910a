/* native/probe/python_offsets.c: C, since CPython's internal headers are not C++. */
#define Py_BUILD_CORE 1
#define PY_SSIZE_T_CLEAN
#include <Python.h>
/* Python.h first: it decides on the feature macros. */
#include <stddef.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "probe/python_offsets.h"

#if PY_VERSION_HEX < 0x030f0000
#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>
#if PY_VERSION_HEX >= 0x030e0000
#include <internal/pycore_interpframe_structs.h>
#elif PY_VERSION_HEX >= 0x030b0000
#include <internal/pycore_frame.h>
#else
#include <frameobject.h>
#endif
#endif

#if PY_VERSION_HEX < 0x030a0000 || PY_VERSION_HEX >= 0x030f0000

const char* pilotlight_python_layout(uint32_t* version, uint64_t* runtime, PythonLayout* layout) {
  (void)version, (void)runtime, (void)layout;
  return "stacks can be read on Python 3.10 to 3.14 only";
}

#elif defined(Py_GIL_DISABLED)

const char* pilotlight_python_layout(uint32_t* version, uint64_t* runtime, PythonLayout* layout) {
  (void)version, (void)runtime, (void)layout;
  return "stacks cannot be read on a free-threaded Python";
}

#else

#define AT(type, field) ((uint32_t)offsetof(type, field))

static void fill_objects(PythonLayout* at) {
  at->object_type = AT(PyObject, ob_type);
  at->unicode_state = AT(PyASCIIObject, state);
  at->unicode_length = AT(PyASCIIObject, length);
  at->unicode_ascii_data = sizeof(PyASCIIObject);
  at->unicode_compact_data = sizeof(PyCompactUnicodeObject);
  at->bytes_size = AT(PyVarObject, ob_size);
  at->bytes_data = AT(PyBytesObject, ob_sval);
  at->code_file = AT(PyCodeObject, co_filename);
  at->code_first_line = AT(PyCodeObject, co_firstlineno);
  at->code_line_table = AT(PyCodeObject, co_linetable);
#if PY_VERSION_HEX >= 0x030b0000
  at->code_name = AT(PyCodeObject, co_qualname);
  at->code_instructions = AT(PyCodeObject, co_code_adaptive);
  at->code_size = AT(PyVarObject, ob_size);
#else
  at->code_name = AT(PyCodeObject, co_name);
  at->code_instructions = AT(PyCodeObject, co_code);
#endif
  uint64_t code_type = (uint64_t)(uintptr_t)&PyCode_Type;
  at->code_type_low = (uint32_t)code_type;
  at->code_type_high = (uint32_t)(code_type >> 32);
}

static void fill_gil(PythonLayout* at) {
#if PY_VERSION_HEX >= 0x030c0000
  at->interpreter_gil = AT(PyInterpreterState, ceval.gil);
#else
  at->runtime_gil = AT(_PyRuntimeState, ceval.gil);
#endif
  at->gil_locked = AT(struct _gil_runtime_state, locked);
  at->gil_holder = AT(struct _gil_runtime_state, last_holder);
  at->gil_switches = AT(struct _gil_runtime_state, switch_number);
  at->gil_cond = AT(struct _gil_runtime_state, cond);
  at->gil_mutex = AT(struct _gil_runtime_state, mutex);
}

static void fill_threads(PythonLayout* at) {
  at->runtime_interpreters_head = AT(_PyRuntimeState, interpreters.head);
  at->interpreter_next = AT(PyInterpreterState, next);
  at->thread_next = AT(PyThreadState, next);
  at->thread_id = AT(PyThreadState, thread_id);
#if PY_VERSION_HEX >= 0x030b0000
  at->interpreter_threads_head = AT(PyInterpreterState, threads.head);
  at->thread_native_id = AT(PyThreadState, native_thread_id);
  at->thread_chunk = AT(PyThreadState, datastack_chunk);
  at->chunk_previous = AT(_PyStackChunk, previous);
  at->chunk_size = AT(_PyStackChunk, size);
  at->chunk_top = AT(_PyStackChunk, top);
  at->chunk_data = AT(_PyStackChunk, data);
#else
  at->interpreter_threads_head = AT(PyInterpreterState, tstate_head);
#endif
#if PY_VERSION_HEX >= 0x030d0000
  at->thread_frame = AT(PyThreadState, current_frame);
#elif PY_VERSION_HEX >= 0x030b0000
  at->thread_frame = AT(PyThreadState, cframe);
  at->cframe_current = AT(_PyCFrame, current_frame);
#else
  at->thread_frame = AT(PyThreadState, frame);
#endif
}

static void fill_frames(PythonLayout* at) {
#if PY_VERSION_HEX >= 0x030b0000
  at->frame_previous = AT(_PyInterpreterFrame, previous);
  at->frame_owner = AT(_PyInterpreterFrame, owner);
#else
  at->frame_code = AT(PyFrameObject, f_code);
  at->frame_previous = AT(PyFrameObject, f_back);
  at->frame_instruction = AT(PyFrameObject, f_lasti);
#endif
#if PY_VERSION_HEX >= 0x030d0000
  at->frame_code = AT(_PyInterpreterFrame, f_executable);
  at->frame_instruction = AT(_PyInterpreterFrame, instr_ptr);
#elif PY_VERSION_HEX >= 0x030b0000
  at->frame_code = AT(_PyInterpreterFrame, f_code);
  at->frame_instruction = AT(_PyInterpreterFrame, prev_instr);
#endif
}

#if PY_VERSION_HEX >= 0x030d0000
/* What the running library says of itself outranks the headers: patch releases may differ. */
static const char* fill_published(PythonLayout* at) {
  const _Py_DebugOffsets* said = &_PyRuntime.debug_offsets;
  if (memcmp(said->cookie, _Py_Debug_Cookie, sizeof(said->cookie)) != 0) {
    return "this Python does not publish its debug offsets";
  }
  if (said->version >> 16 != PY_VERSION_HEX >> 16) {
    return "this Python is another version than the probe was built for";
  }
  if (said->free_threaded != 0) return "stacks cannot be read on a free-threaded Python";
  at->runtime_interpreters_head = (uint32_t)said->runtime_state.interpreters_head;
  at->interpreter_next = (uint32_t)said->interpreter_state.next;
  at->interpreter_threads_head = (uint32_t)said->interpreter_state.threads_head;
  at->interpreter_gil = (uint32_t)said->interpreter_state.ceval_gil;
  at->thread_next = (uint32_t)said->thread_state.next;
  at->thread_frame = (uint32_t)said->thread_state.current_frame;
  at->thread_id = (uint32_t)said->thread_state.thread_id;
  at->thread_native_id = (uint32_t)said->thread_state.native_thread_id;
  at->thread_chunk = (uint32_t)said->thread_state.datastack_chunk;
  at->frame_code = (uint32_t)said->interpreter_frame.executable;
  at->frame_previous = (uint32_t)said->interpreter_frame.previous;
  at->frame_instruction = (uint32_t)said->interpreter_frame.instr_ptr;
  at->frame_owner = (uint32_t)said->interpreter_frame.owner;
  at->code_name = (uint32_t)said->code_object.qualname;
  at->code_file = (uint32_t)said->code_object.filename;
  at->code_first_line = (uint32_t)said->code_object.firstlineno;
  at->code_line_table = (uint32_t)said->code_object.linetable;
  at->code_instructions = (uint32_t)said->code_object.co_code_adaptive;
  at->unicode_state = (uint32_t)said->unicode_object.state;
  at->unicode_length = (uint32_t)said->unicode_object.length;
  at->unicode_ascii_data = (uint32_t)said->unicode_object.asciiobject_size;
  return NULL;
}
#endif

#if PY_VERSION_HEX < 0x030b0000
/* Without native_thread_id the thread's number is looked up behind its pthread_t, at the place
   where the C library keeps that of the calling thread. Sampler::open checks the place with another
   one. */
static uint32_t find_pthread_tid(void) {
  const int32_t* words = (const int32_t*)PyThread_get_thread_ident();
  int32_t tid = (int32_t)syscall(SYS_gettid);
  for (uint32_t i = 0; i < 256; i++) {
    if (words[i] == tid) return i * (uint32_t)sizeof(int32_t);
  }
  return 0;
}
#endif

static uint64_t word_at(const void* base, uint32_t offset) {
  uint64_t word;
  memcpy(&word, (const char*)base + offset, sizeof(word));
  return word;
}

/* The offsets are used on this very thread and the result compared with what the public API says:
   a library built with other structures than the headers is refused instead of misread. */
static int agrees_with_public_api(const PythonLayout* at) {
  PyThreadState* thread = PyThreadState_Get();
  uint64_t interpreter = word_at(&_PyRuntime, at->runtime_interpreters_head);
  int seen = 0;
  for (int i = 0; interpreter != 0 && i < 64 && !seen; i++) {
    uint64_t next = word_at((void*)interpreter, at->interpreter_threads_head);
    for (int j = 0; next != 0 && j < 4096 && !seen; j++) {
      seen = next == (uint64_t)(uintptr_t)thread;
      next = word_at((void*)next, at->thread_next);
    }
    interpreter = word_at((void*)interpreter, at->interpreter_next);
  }
  if (!seen) return 0;
  if (word_at(thread, at->thread_id) != PyThread_get_thread_ident()) return 0;
#if PY_VERSION_HEX >= 0x030b0000
  if (word_at(thread, at->thread_native_id) != (uint64_t)syscall(SYS_gettid)) return 0;
#else
  if (at->pthread_tid == 0) return 0;
#endif
  PyFrameObject* frame = PyEval_GetFrame();
  if (frame == NULL) return 1;
  uint64_t current = word_at(thread, at->thread_frame);
#if PY_VERSION_HEX >= 0x030b0000 && PY_VERSION_HEX < 0x030d0000
  current = word_at((void*)current, at->cframe_current);
#endif
  PyCodeObject* code = PyFrame_GetCode(frame);
  int same = current != 0 &&
             pilotlight_code_of(PY_VERSION_HEX, word_at((void*)current, at->frame_code)) ==
                 (uint64_t)(uintptr_t)code &&
             word_at(code, at->object_type) == (uint64_t)(uintptr_t)&PyCode_Type;
  PyObject* file = PyObject_GetAttrString((PyObject*)code, "co_filename");
  same = same && file != NULL && word_at(code, at->code_file) == (uint64_t)(uintptr_t)file;
  if (file == NULL) PyErr_Clear();
  Py_XDECREF(file);
  Py_DECREF(code);
  return same;
}

const char* pilotlight_python_layout(uint32_t* version, uint64_t* runtime, PythonLayout* layout) {
  memset(layout, 0, sizeof(*layout));
  fill_objects(layout);
  fill_gil(layout);
  fill_threads(layout);
  fill_frames(layout);
#if PY_VERSION_HEX >= 0x030d0000
  const char* refused = fill_published(layout);
  if (refused != NULL) return refused;
#endif
#if PY_VERSION_HEX < 0x030b0000
  layout->pthread_tid = find_pthread_tid();
#endif
  if (!agrees_with_public_api(layout))
    return "this Python does not lie in memory as its headers say";
  *version = PY_VERSION_HEX;
  *runtime = (uint64_t)(uintptr_t)&_PyRuntime;
  return NULL;
}

#endif
