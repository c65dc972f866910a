// native/drain/module.cpp: pilotlight._drain, the agent's native half as Python sees it.
#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <cstring>
#include <memory>
#include <stdexcept>

#include "drain/launched.h"
#include "drain/parts.h"
#include "drain/reader.h"
#include "drain/tables.h"
#include "probe/process_stacks.h"

namespace nb = nanobind;

namespace pilotlight {
namespace {

struct SegmentError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

std::string hex(const uint8_t* bytes, size_t count) {
  static const char digits[] = "0123456789abcdef";
  std::string text;
  for (size_t i = 0; i < count; i++) {
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

nb::bytes bytes_of(std::string_view text) { return nb::bytes(text.data(), text.size()); }

nb::dict tables_dict(const std::vector<Table>& tables) {
  nb::dict result;
  for (const Table& table : tables) {
    nb::dict columns;
    for (const Column& column : table.columns) columns[column.name] = bytes_of(column.bytes());
    result[table.name] = nb::make_tuple(table.rows, columns);
  }
  return result;
}

// A reader, and what the two kinds of chunk that it feeds already have.
class PyReader {
 public:
  PyReader(int fd, uint32_t process, uint64_t epoch)
      : process_(process), reader_(std::make_unique<Reader>()) {
    const char* reason = reader_->open(fd, epoch);
    if (reason != nullptr) throw SegmentError(reason);
  }

  Reader& reader() {
    if (reader_ == nullptr) throw SegmentError("the reader is closed");
    return *reader_;
  }
  void close() { reader_.reset(); }

  uint64_t read() {
    Reader& reader = this->reader();
    nb::gil_scoped_release released;
    return reader.read();
  }

  nb::dict take() {
    Reader& reader = this->reader();
    std::vector<Table> tables;
    {
      nb::gil_scoped_release released;
      tables = detail_tables(reader.take(), process_, reader.definitions(), &detail_given_);
    }
    return tables_dict(tables);
  }

  nb::dict take_windows(int64_t until_ns) {
    Reader& reader = this->reader();
    std::vector<Table> tables;
    {
      nb::gil_scoped_release released;
      tables = window_tables(reader.take_windows(until_ns), process_, reader.definitions(),
                             &windows_given_);
    }
    return tables_dict(tables);
  }

  void new_chunk() {
    detail_given_.clear();
    reader().new_chunk();
  }

  nb::dict positions() {
    const Reader& reader = this->reader();
    nb::dict rings;
    const auto& taken = reader.taken();
    for (uint32_t i = 0; i < reader.header().ring_count; i++) {
      const RingProgress& ring = taken[i];
      if (ring.position == 0 && ring.known_nested == 0) continue;
      nb::list open;
      for (const OpenRange& range : ring.open) {
        open.append(nb::make_tuple(range.name, range.start_ns, range.kind));
      }
      nb::object step =
          ring.has_step ? nb::object(nb::make_tuple(ring.step, ring.step_start_ns)) : nb::none();
      rings[nb::str(std::to_string(i).c_str())] =
          nb::make_tuple(ring.position, ring.thread, open, step, ring.known_full, ring.known_nested,
                         ring.known_quarantined);
    }
    nb::dict result;
    result["rings"] = rings;
    const KnownLosses& known = reader.known_losses();
    result["known"] = nb::make_tuple(known.no_ring, known.definitions);
    return result;
  }

  bool resume(const nb::dict& positions) {
    // What a journal says is checked field by field; what does not fit is left at the shared tail.
    bool fits = true;
    try {
      auto rings = nb::cast<nb::dict>(positions["rings"]);
      for (auto [key, value] : rings) {
        nb::object parts = nb::borrow(value);
        RingProgress ring;
        ring.position = nb::cast<uint64_t>(parts[0]);
        ring.thread = nb::cast<uint32_t>(parts[1]);
        for (nb::handle range : nb::object(parts[2])) {
          nb::object parts = nb::borrow(range);
          // Journals of version 1.0 have no kind.
          auto kind = nb::len(parts) > 2 ? nb::cast<uint8_t>(parts[2]) : uint8_t{1};
          ring.open.push_back({nb::cast<uint32_t>(parts[0]), kind, nb::cast<int64_t>(parts[1])});
        }
        nb::object step = parts[3];
        if (!step.is_none()) {
          ring.has_step = true;
          ring.step = nb::cast<int64_t>(step[0]);
          ring.step_start_ns = nb::cast<int64_t>(step[1]);
        }
        ring.known_full = nb::cast<uint64_t>(parts[4]);
        ring.known_nested = nb::cast<uint64_t>(parts[5]);
        ring.known_quarantined = nb::cast<uint64_t>(parts[6]);
        auto index = static_cast<uint32_t>(std::stoul(nb::cast<std::string>(key)));
        fits = reader().resume(index, ring) && fits;
      }
      nb::object known = positions["known"];
      reader().resume(KnownLosses{nb::cast<uint64_t>(known[0]), nb::cast<uint64_t>(known[1])});
      return fits;
    } catch (const nb::python_error&) {
    } catch (const nb::cast_error&) {
    } catch (const std::logic_error&) {
    }
    return false;
  }

  nb::dict losses() {
    Losses losses = reader().losses();
    nb::dict result;
    result["dropped"] = losses.dropped;
    result["no_ring"] = losses.no_ring;
    result["nested"] = losses.nested;
    result["definitions_lost"] = losses.definitions_lost;
    result["quarantined"] = losses.quarantined;
    result["unmatched"] = losses.unmatched;
    result["unknown"] = losses.unknown;
    return result;
  }

  nb::dict live() {
    const Live& live = reader().live();
    nb::dict result;
    result["read"] = live.read;
    result["steps"] = live.steps;
    result["step"] = live.step;
    result["step_ns"] = live.step_ns;
    result["last_step_ns"] = live.last_step_ns;
    nb::list states;
    for (uint64_t ns : live.state_ns) states.append(ns);
    result["state_ns"] = states;
    nb::dict sampler;
    sampler["time_ns"] = live.sampler.time_ns;
    sampler["passes"] = live.sampler.passes;
    sampler["taken"] = live.sampler.taken;
    sampler["torn"] = live.sampler.torn;
    sampler["skipped"] = live.sampler.skipped;
    sampler["cpu_ns"] = live.sampler.cpu_ns;
    sampler["period_ns"] = live.sampler.period_ns;
    result["sampler"] = sampler;
    nb::list open;
    for (const OpenRange& range : reader().open_ranges()) {
      std::string name;
      if (!reader().definitions().string(range.name, &name)) name.clear();
      open.append(nb::make_tuple(valid_utf8(name), range.kind, range.start_ns));
    }
    result["open"] = open;
    nb::dict phases;
    for (const PhaseSum& phase : live.phases) {
      std::string name;
      if (phase.total_ns == 0 || !reader().definitions().string(phase.name, &name)) continue;
      phases[nb::cast(valid_utf8(name))] = phase.total_ns;
    }
    result["phases"] = phases;
    result["gpu"] = gpu_counters(live);
    return result;
  }

  nb::dict gpu_counters(const Live& live) {
    constexpr char kPrefix[] = "gpu/";
    nb::dict result;
    for (const LastValues::Entry& entry : live.counters.entries()) {
      std::string name;
      if (entry.name == 0 || !reader().definitions().string(entry.name, &name)) continue;
      if (name.rfind(kPrefix, 0) != 0) continue;
      result[nb::cast(valid_utf8(name.substr(sizeof(kPrefix) - 1)))] = entry.value;
    }
    return result;
  }

  nb::object off() {
    std::string reason = reader().off_reason();
    if (reason.empty()) return nb::none();
    return nb::cast(valid_utf8(reason));
  }

  nb::bytes python() {
    const PythonInfo& info = reader().header().python;
    return nb::bytes(reinterpret_cast<const char*>(&info), sizeof(info));
  }

 private:
  uint32_t process_;
  std::unique_ptr<Reader> reader_;
  IdSet detail_given_;
  IdSet windows_given_;
};

// Collects what the walk of another process finds: (tid, state, [(function, file, line)]).
class StackList : public StackVisitor {
 public:
  void thread(uint32_t tid, ThreadState state) override {
    frames_ = nb::list();
    threads_.append(nb::make_tuple(tid, static_cast<uint32_t>(state), frames_));
  }
  void frame(std::string_view function, std::string_view file, uint32_t line) override {
    frames_.append(
        nb::make_tuple(valid_utf8(std::string(function)), valid_utf8(std::string(file)), line));
  }
  nb::list threads() const { return threads_; }

 private:
  nb::list threads_;
  nb::list frames_;
};

Intervals intervals_of(const nb::bytes& start_ns, const nb::bytes& duration_ns) {
  if (start_ns.size() != duration_ns.size() || start_ns.size() % sizeof(int64_t) != 0) {
    throw nb::value_error("starts and durations are not as many");
  }
  Intervals made;
  const size_t count = start_ns.size() / sizeof(int64_t);
  made.start_ns.resize(count);
  made.duration_ns.resize(count);
  if (count != 0) {
    std::memcpy(made.start_ns.data(), start_ns.c_str(), start_ns.size());
    std::memcpy(made.duration_ns.data(), duration_ns.c_str(), duration_ns.size());
  }
  return made;
}

nb::bytes py_step_parts(const nb::bytes& start_ns, const nb::bytes& duration_ns,
                        const nb::bytes& category, const nb::bytes& step_start_ns,
                        const nb::bytes& step_duration_ns, unsigned categories) {
  const Intervals intervals = intervals_of(start_ns, duration_ns);
  const Intervals steps = intervals_of(step_start_ns, step_duration_ns);
  if (category.size() != intervals.start_ns.size() || categories > kMostCategories) {
    throw nb::value_error("categories are not as many, or there are too many of them");
  }
  std::vector<int64_t> sums;
  {
    const auto* bytes = reinterpret_cast<const uint8_t*>(category.c_str());
    nb::gil_scoped_release released;
    sums = step_parts(intervals, bytes, steps, categories);
  }
  return nb::bytes(sums.data(), sums.size() * sizeof(int64_t));
}

nb::tuple py_launched_sums(const nb::bytes& stack, const nb::bytes& range, const nb::bytes& name,
                           const nb::bytes& kind, const nb::bytes& start_ns,
                           const nb::bytes& duration_ns, int64_t window_ns, size_t most) {
  const size_t count = kind.size();
  const size_t ids_size = count * sizeof(uint32_t), times_size = count * sizeof(int64_t);
  if (stack.size() != ids_size || range.size() != ids_size || name.size() != ids_size ||
      start_ns.size() != times_size || duration_ns.size() != times_size || window_ns <= 0) {
    throw nb::value_error("columns are not as long as each other, or the window is empty");
  }
  // Copies: bytes need not lie where numbers may.
  const auto ids = [count](const nb::bytes& column) {
    std::vector<uint32_t> made(count);
    if (count != 0) std::memcpy(made.data(), column.c_str(), column.size());
    return made;
  };
  const std::vector<uint32_t> stacks = ids(stack), ranges = ids(range), names = ids(name);
  const Intervals times = intervals_of(start_ns, duration_ns);
  const Activities activities = {stacks.data(),
                                 ranges.data(),
                                 names.data(),
                                 reinterpret_cast<const uint8_t*>(kind.c_str()),
                                 times.start_ns.data(),
                                 times.duration_ns.data(),
                                 count};
  int64_t left_out_ns = 0;
  std::vector<int64_t> rows;
  {
    nb::gil_scoped_release released;
    rows = launched_sums(activities, window_ns, most, &left_out_ns);
  }
  return nb::make_tuple(nb::bytes(rows.data(), rows.size() * sizeof(int64_t)), left_out_ns);
}

nb::list read_stacks(int pid, const nb::bytes& python) {
  PythonInfo info;
  if (python.size() != sizeof(info)) throw SegmentError("not a description of a Python");
  std::memcpy(&info, python.c_str(), sizeof(info));
  StackList stacks;
  const char* why = nullptr;
  if (!walk_process(pid, info, &stacks, &why)) throw SegmentError(why);
  return stacks.threads();
}

}  // namespace
}  // namespace pilotlight

NB_MODULE(_drain, m) {
  using namespace pilotlight;
  m.attr("ABI") = nb::make_tuple(kAbiMajor, kAbiMinor);
  nb::exception<SegmentError>(m, "SegmentError", PyExc_ValueError);
  m.def("read_stacks", &read_stacks, nb::arg("pid"), nb::arg("python"));
  m.def("step_parts", &py_step_parts, nb::arg("start_ns"), nb::arg("duration_ns"),
        nb::arg("category"), nb::arg("step_start_ns"), nb::arg("step_duration_ns"),
        nb::arg("categories"));
  m.def("launched_sums", &py_launched_sums, nb::arg("stack"), nb::arg("range"), nb::arg("name"),
        nb::arg("kind"), nb::arg("start_ns"), nb::arg("duration_ns"), nb::arg("window_ns"),
        nb::arg("most"));
  nb::class_<PyReader>(m, "Reader")
      .def(nb::init<int, uint32_t, uint64_t>(), nb::arg("fd"), nb::arg("process"), nb::arg("epoch"))
      .def_prop_ro("pid", [](PyReader& r) { return r.reader().header().pid; })
      .def_prop_ro("start_time", [](PyReader& r) { return r.reader().header().start_time; })
      .def_prop_ro("segment_id",
                   [](PyReader& r) { return hex(r.reader().header().segment_id, 16); })
      .def_prop_ro("boot_id", [](PyReader& r) { return hex(r.reader().header().boot_id, 16); })
      .def_prop_ro("abi",
                   [](PyReader& r) {
                     const SegmentHeader& h = r.reader().header();
                     return nb::make_tuple(h.abi_major, h.abi_minor);
                   })
      .def("identity", [](PyReader& r) { return bytes_of(r.reader().identity()); })
      .def("resume", &PyReader::resume)
      .def("read", &PyReader::read)
      .def("fill", [](PyReader& r) { return r.reader().fill(); })
      .def(
          "finish",
          [](PyReader& r, int64_t time_ns, bool has_exited) {
            r.reader().finish(time_ns, has_exited);
          },
          nb::arg("time_ns"), nb::arg("has_exited") = false)
      .def("take", &PyReader::take)
      .def("new_chunk", &PyReader::new_chunk)
      .def("take_windows", &PyReader::take_windows)
      .def("positions", &PyReader::positions)
      .def("commit", [](PyReader& r) { return r.reader().commit(); })
      .def("release_pages", [](PyReader& r) { r.reader().release_pages(); })
      .def("losses", &PyReader::losses)
      .def("live", &PyReader::live)
      .def("off", &PyReader::off)
      .def("python", &PyReader::python)
      .def("close", &PyReader::close);
}
