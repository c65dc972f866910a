// native/probe/collective.cpp: a rank's part in a collective, told when it is over.
#include "probe/module.h"
#include "probe/probe.h"

namespace pilotlight {

PyObject* py_collective(PyObject*, PyObject* const* args, Py_ssize_t count) {
  constexpr Py_ssize_t kTexts[] = {0, 1, 4};
  bool good = count == 11;
  for (Py_ssize_t i = 0; good && i < count; i++) {
    bool is_text = i == kTexts[0] || i == kTexts[1] || i == kTexts[2];
    good = is_text ? PyUnicode_Check(args[i]) : PyLong_Check(args[i]);
  }
  if (!good) {
    PyErr_SetString(PyExc_TypeError,
                    "collective(op, group, sequence, bytes, dtype, rank, world, start_ticks, "
                    "end_ticks, wait_ticks, flags): op, group and dtype are str, the others int");
    return nullptr;
  }
  if (!Probe::get().collecting()) Py_RETURN_NONE;
  RingWriter* ring = python_ring();
  if (ring == nullptr) Py_RETURN_NONE;
  uint64_t start = word_of(args[7]);
  uint64_t end = word_of(args[8]);
  Collective collective = {};
  collective.header.flags = static_cast<uint8_t>(word_of(args[10]));
  collective.duration_ticks = end > start ? end - start : 0;
  collective.wait_ticks = word_of(args[9]);
  collective.bytes = static_cast<int64_t>(word_of(args[3]));
  collective.sequence = word_of(args[2]);
  collective.group = name_id(args[1]);
  collective.dtype = name_id(args[4]);
  collective.rank = static_cast<uint32_t>(word_of(args[5]));
  collective.world_size = static_cast<uint32_t>(word_of(args[6]));
  ring->write_at(RecordType::kCollective, name_id(args[0]), collective, start);
  Py_RETURN_NONE;
}

}  // namespace pilotlight
