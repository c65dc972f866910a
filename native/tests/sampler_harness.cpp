// native/tests/sampler_harness.cpp: a Python module that samples its own process and hands back
// every stack that it saw, for tests to compare with the stacks that can exist.
#define PY_SSIZE_T_CLEAN
#include <Python.h>
// Python.h first: it decides on the feature macros.
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <map>
#include <string>
#include <thread>
#include <tuple>

#include "probe/line_table.h"
#include "probe/own_files.h"
#include "probe/process_stacks.h"
#include "probe/sampler.h"
#include "ring/segment.h"

namespace pilotlight {
namespace {

struct Tally {
  uint64_t count = 0;
  uint64_t weight_ns = 0;
};

class Harness {
 public:
  bool start(const PythonInfo& python, int64_t period_ns) {
    if (!segment_.is_open() && !segment_.create(nullptr)) return false;
    stopping_ = false;
    opened_ = -1;
    thread_ = std::thread([=] { run(python, period_ns); });
    while (opened_ == -1) std::this_thread::yield();
    if (opened_ == 0) thread_.join();
    return opened_ == 1;
  }

  void stop() {
    stopping_ = true;
    if (thread_.joinable()) thread_.join();
  }

  const char* why() const { return sampler_.why(); }

  PyObject* result() {
    PyObject* samples = PyList_New(0);
    for (const auto& [key, tally] : tallies_) {
      auto [tid, state, flags, stack] = key;
      PyObject* frames = frames_of(stack);
      PyObject* row =
          Py_BuildValue("(IIIKKN)", tid, state, flags, tally.count, tally.weight_ns, frames);
      PyList_Append(samples, row);
      Py_DECREF(row);
    }
    PyObject* names = PyDict_New();
    for (const auto& [tid, name] : names_) {
      PyObject* key = PyLong_FromUnsignedLong(tid);
      PyObject* value =
          PyUnicode_FromStringAndSize(name.data(), static_cast<Py_ssize_t>(name.size()));
      PyDict_SetItem(names, key, value);
      Py_DECREF(key);
      Py_DECREF(value);
    }
    SamplerCounts counts = sampler_.counts();
    return Py_BuildValue("{s:I,s:I,s:I,s:K,s:K,s:N,s:N}", "passes", counts.passes, "taken",
                         counts.taken, "torn", counts.torn, "cpu_ns", cpu_ns_, "dropped",
                         ring_.slot()->drops.load(), "samples", samples, "names", names);
  }

 private:
  void run(const PythonInfo& python, int64_t period_ns) {
    pthread_setname_np(pthread_self(), "pilotlight");
    segment_.take_ring(&ring_, static_cast<uint32_t>(syscall(SYS_gettid)), "harness");
    bool has_window = take_own_files(segment_.fd(), -1) && window_.open();
    const CopyWindow* window = has_window ? &window_ : nullptr;
    opened_ = sampler_.open(python, window, &segment_.definitions(), &ring_) ? 1 : 0;
    while (opened_ == 1 && !stopping_) {
      int64_t before = clock_ns(CLOCK_THREAD_CPUTIME_ID);
      sampler_.pass();
      cpu_ns_ += static_cast<uint64_t>(clock_ns(CLOCK_THREAD_CPUTIME_ID) - before);
      drain();
      if (period_ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(period_ns));
    }
  }

  char* base() { return reinterpret_cast<char*>(segment_.header()); }

  void drain() {
    auto* slots = reinterpret_cast<RingSlot*>(base() + kTableOffset);
    auto index = ring_.slot() - slots;
    auto* tail = reinterpret_cast<RingTail*>(base() + kTailsOffset) + index;
    const char* data = base() + kRingsOffset + index * kRingBytes;
    uint64_t head = ring_.slot()->head.load(std::memory_order_acquire);
    uint64_t at = tail->tail.load();
    while (at < head) {
      RecordHeader header;
      const char* place = data + (at & (kRingBytes - 1));
      std::memcpy(&header, place, sizeof(header));
      take(header, place);
      at += header.size;
    }
    tail->tail.store(at);
  }

  void take(const RecordHeader& header, const char* place) {
    if (header.type == static_cast<uint8_t>(RecordType::kSample)) {
      Sample sample;
      std::memcpy(&sample, place, sizeof(sample));
      Tally& tally = tallies_[{sample.tid, sample.state, sample.flags, header.id}];
      tally.count++;
      tally.weight_ns += sample.weight_ns;
    } else if (header.type == static_cast<uint8_t>(RecordType::kThread) && header.flags == 1) {
      Thread thread;
      std::memcpy(&thread, place, sizeof(thread));
      names_[thread.tid] = text(header.id);
    }
  }

  template <typename T>
  T definition(uint32_t id) {
    T entry;
    std::memcpy(&entry, base() + kArenaOffset + uint64_t{id} * kDefinitionAlign, sizeof(entry));
    return entry;
  }

  std::string text(uint32_t id) {
    if (id == 0) return "";
    auto header = definition<DefinitionHeader>(id);
    const char* from = base() + kArenaOffset + uint64_t{id} * kDefinitionAlign + sizeof(header);
    return std::string(from, header.size - sizeof(header) - header.unused);
  }

  // From the root to the leaf: (function, file, line, first line).
  PyObject* frames_of(uint32_t stack) {
    PyObject* frames = PyList_New(0);
    for (; stack != 0; stack = definition<Stack>(stack).parent) {
      auto frame = definition<Frame>(definition<Stack>(stack).frame);
      PyObject* row = Py_BuildValue("(ssII)", text(frame.function).c_str(),
                                    text(frame.file).c_str(), frame.line, frame.first_line);
      PyList_Append(frames, row);
      Py_DECREF(row);
    }
    PyList_Reverse(frames);
    return frames;
  }

  Segment segment_;
  Sampler sampler_;
  RingWriter ring_;
  std::thread thread_;
  CopyWindow window_;
  std::atomic<bool> stopping_{false};
  std::atomic<int> opened_{-1};
  uint64_t cpu_ns_ = 0;
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>, Tally> tallies_;
  std::map<uint32_t, std::string> names_;
};

Harness* harness = nullptr;

PyObject* start(PyObject*, PyObject* args) {
  double period_us = 0;
  if (!PyArg_ParseTuple(args, "d", &period_us)) return nullptr;
  PythonInfo python;
  describe_python(&python);
  harness = new Harness;
  if (!harness->start(python, static_cast<int64_t>(period_us * 1000))) {
    PyErr_SetString(PyExc_RuntimeError, harness->why());
    return nullptr;
  }
  Py_RETURN_NONE;
}

PyObject* stop(PyObject*, PyObject*) {
  if (harness == nullptr) Py_RETURN_NONE;
  Py_BEGIN_ALLOW_THREADS;
  harness->stop();
  Py_END_ALLOW_THREADS;
  PyObject* result = harness->result();
  delete harness;
  harness = nullptr;
  return result;
}

PyObject* layout(PyObject*, PyObject*) {
  PythonInfo python;
  describe_python(&python);
  return PyBytes_FromStringAndSize(reinterpret_cast<const char*>(&python), sizeof(python));
}

class Collector : public StackVisitor {
 public:
  explicit Collector(PyObject* threads) : threads_(threads) {}

  void thread(uint32_t tid, ThreadState state) override {
    PyObject* row = Py_BuildValue("(IIN)", tid, static_cast<unsigned>(state), PyList_New(0));
    PyList_Append(threads_, row);
    frames_ = PyTuple_GetItem(row, 2);
    Py_DECREF(row);
  }

  void frame(std::string_view function, std::string_view file, uint32_t line) override {
    PyObject* row =
        Py_BuildValue("(s#s#I)", function.data(), static_cast<Py_ssize_t>(function.size()),
                      file.data(), static_cast<Py_ssize_t>(file.size()), line);
    PyList_Append(frames_, row);
    Py_DECREF(row);
  }

 private:
  PyObject* threads_;
  PyObject* frames_ = nullptr;
};

PyObject* walk(PyObject*, PyObject* args) {
  int pid = 0;
  const char* bytes = nullptr;
  Py_ssize_t size = 0;
  if (!PyArg_ParseTuple(args, "iy#", &pid, &bytes, &size)) return nullptr;
  PythonInfo python = {};
  if (size != sizeof(python)) return PyErr_Format(PyExc_ValueError, "not a PythonInfo");
  std::memcpy(&python, bytes, sizeof(python));
  PyObject* threads = PyList_New(0);
  Collector collector(threads);
  const char* why = nullptr;
  if (walk_process(pid, python, &collector, &why)) return threads;
  Py_DECREF(threads);
  return PyErr_Format(PyExc_OSError, "%s", why);
}

PyObject* line(PyObject*, PyObject* args) {
  const char* table = nullptr;
  Py_ssize_t size = 0;
  unsigned version = 0, first_line = 0, offset = 0;
  if (!PyArg_ParseTuple(args, "Iy#II", &version, &table, &size, &first_line, &offset))
    return nullptr;
  return PyLong_FromUnsignedLong(line_at(version, reinterpret_cast<const unsigned char*>(table),
                                         static_cast<uint32_t>(size), first_line, offset));
}

PyMethodDef methods[] = {
    {"walk", walk, METH_VARARGS, "walk(pid, layout): the stacks of another process."},
    {"line", line, METH_VARARGS, "line(version, table, first_line, offset)"},
    {"start", start, METH_VARARGS, "start(period_us): samples this process until stop()."},
    {"stop", stop, METH_NOARGS, "Everything that was seen, as a dictionary."},
    {"layout", layout, METH_NOARGS, "The PythonInfo of this process as bytes."},
    {nullptr, nullptr, 0, nullptr}};

PyModuleDef module = {PyModuleDef_HEAD_INIT,
                      "sampler_harness",
                      nullptr,
                      -1,
                      methods,
                      nullptr,
                      nullptr,
                      nullptr,
                      nullptr};

}  // namespace
}  // namespace pilotlight

PyMODINIT_FUNC PyInit_sampler_harness() { return PyModule_Create(&pilotlight::module); }
