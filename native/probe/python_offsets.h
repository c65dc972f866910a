/* native/probe/python_offsets.h: where this CPython keeps what a stack walk needs. */
#pragma once

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The order of PythonOffset in ring/layout.h. */
typedef struct {
  uint32_t runtime_interpreters_head;
  uint32_t interpreter_next, interpreter_threads_head;
  uint32_t thread_next, thread_frame, cframe_current, thread_native_id, thread_id, thread_chunk;
  uint32_t chunk_previous, chunk_size, chunk_top, chunk_data;
  uint32_t frame_code, frame_previous, frame_instruction, frame_owner;
  uint32_t code_name, code_file, code_first_line, code_line_table, code_instructions, code_size;
  uint32_t unicode_state, unicode_length, unicode_ascii_data, unicode_compact_data;
  uint32_t bytes_size, bytes_data;
  uint32_t runtime_gil, interpreter_gil, gil_locked, gil_holder, gil_cond, gil_mutex;
  uint32_t gil_switches, object_type, code_type_low, code_type_high, pthread_tid;
} PythonLayout;

/* The code object that a frame names. Since 3.14 the lowest bit says who counts the reference. */
static inline uint64_t pilotlight_code_of(uint32_t version, uint64_t executable) {
  return version >= 0x030e0000 ? executable & ~(uint64_t)1 : executable;
}

/* Whether a frame is one of the interpreter's own, without code: by its owner, which was the C
   stack (3) until 3.13, and is the interpreter (3) or the C stack (4) since. */
static inline int pilotlight_is_shim(uint8_t owner) { return owner >= 3; }

/* Needs the interpreter lock. Returns NULL, or in one line why this Python cannot be walked. */
const char* pilotlight_python_layout(uint32_t* version, uint64_t* runtime, PythonLayout* layout);

#ifdef __cplusplus
}
#endif
