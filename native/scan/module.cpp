// native/scan/module.cpp: pilotlight._scan, the reader of Chrome traces as Python sees it.
#include <nanobind/nanobind.h>
#include <nanobind/ndarray.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "scan/arrays.h"
#include "scan/budget.h"
#include "scan/column.h"
#include "scan/interval.h"
#include "scan/scanner.h"

namespace nb = nanobind;

namespace pilotlight::scan {
namespace {

// A column that would leave most of its page empty is copied to the heap: many ranks have many.
constexpr size_t kPart = 2048;

template <typename T>
nb::object array_of(Column<T>&& column) {
  if (column.size() * sizeof(T) <= kPart) {
    auto* kept = new std::vector<T>(column.data(), column.data() + column.size());
    nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<std::vector<T>*>(p); });
    return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {kept->size()}, owner));
  }
  auto* kept = new Column<T>(std::move(column));
  kept->finish();
  nb::capsule owner(kept, [](void* p) noexcept { delete static_cast<Column<T>*>(p); });
  size_t rows = kept->size();
  return nb::cast(nb::ndarray<nb::numpy, T, nb::ndim<1>>(kept->data(), {rows}, owner));
}

constexpr int kSetHandler = 304;  // PyDataMem_SetHandler in the table of numpy's functions
constexpr int kUsualHandler = 306;
constexpr const char* kHandler = "mem_handler";

nb::object set_handler(nb::object numpy_functions, nb::object handler) {
  auto** functions = static_cast<void**>(PyCapsule_GetPointer(numpy_functions.ptr(), nullptr));
  if (functions == nullptr) throw nb::python_error();
  auto set = reinterpret_cast<PyObject* (*)(PyObject*)>(functions[kSetHandler]);
  nb::object before = nb::steal(set(handler.ptr()));
  if (!before.is_valid()) throw nb::python_error();
  return before;
}

// Arrays that this thread makes from now on are within the budget. Returns the handler that they
// would have come from.
nb::object bound_arrays(nb::object numpy_functions) {
  auto** functions = static_cast<void**>(PyCapsule_GetPointer(numpy_functions.ptr(), nullptr));
  if (functions == nullptr) throw nb::python_error();
  static ArrayHandler* handler = nullptr;
  if (handler == nullptr) {
    PyObject* usual = *static_cast<PyObject**>(functions[kUsualHandler]);
    void* found = PyCapsule_GetPointer(usual, kHandler);
    if (found == nullptr) throw nb::python_error();
    handler = bounded_handler(static_cast<const ArrayHandler*>(found));
  }
  return set_handler(numpy_functions, nb::capsule(handler, kHandler));
}

nb::object text_object(std::string_view text) {
  return nb::steal(
      PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::list texts_of(const Interner& interner) {
  nb::list found;
  for (uint32_t i = 0; i < interner.size(); i++) found.append(text_object(interner.text(i)));
  return found;
}

nb::tuple dropped_of(const Dropped& dropped) {
  return nb::make_tuple(dropped.count, dropped.first);
}

using Times = nb::ndarray<const int64_t, nb::numpy, nb::ndim<1>, nb::c_contig>;
using Room = nb::ndarray<int64_t, nb::numpy, nb::ndim<1>, nb::c_contig>;

Intervals intervals(const Times& start, const Times& end) {
  if (start.size() != end.size()) throw nb::value_error("begins and ends of different lengths");
  return {start.data(), end.data(), start.size()};
}

void need(const Room& room, size_t rows) {
  if (room.size() < rows) throw nb::value_error("too little room for the result");
}

ptrdiff_t join_into(Times start, Times end, Room new_start, Room new_end) {
  need(new_start, start.size());
  need(new_end, start.size());
  return join(intervals(start, end), new_start.data(), new_end.data());
}

size_t combine_into(Times start, Times end, Times other_start, Times other_end, unsigned wanted,
                    Room new_start, Room new_end) {
  size_t most = start.size() + other_start.size();
  need(new_start, most);
  need(new_end, most);
  return combine(intervals(start, end), intervals(other_start, other_end), wanted, new_start.data(),
                 new_end.data());
}

void cover_into(Times start, Times end, Room before, Times times, Room found) {
  need(before, start.size() + 1);
  need(found, times.size());
  covered(intervals(start, end), before.data(), times.data(), times.size(), found.data());
}

class PyScanner {
 public:
  PyScanner(std::vector<std::pair<std::string, int>> kinds, uint64_t with_correlation,
            uint64_t with_bytes, std::vector<std::pair<std::string, int>> arguments,
            std::vector<std::string> unused_flows, uint32_t most_names, uint32_t most_lanes) {
    Settings settings;
    for (auto& [category, kind] : kinds) {
      settings.kinds.emplace_back(std::move(category), static_cast<uint8_t>(kind));
    }
    for (auto& [key, type] : arguments) {
      settings.arguments.emplace_back(std::move(key), static_cast<ArgumentType>(type));
    }
    settings.with_correlation = with_correlation;
    settings.with_bytes = with_bytes;
    settings.unused_flows = std::move(unused_flows);
    settings.limits.names = most_names;
    settings.limits.lanes = most_lanes;
    scanner_ = std::make_unique<Scanner>(settings);
  }

  bool feed(nb::bytes block) {
    std::string_view view(static_cast<const char*>(block.data()), block.size());
    nb::gil_scoped_release released;
    scanner_->feed(view);
    return !scanner_->is_done();
  }

  void finish() {
    nb::gil_scoped_release released;
    scanner_->finish();
  }

  nb::list troubles() const {
    nb::list found;
    for (const Trouble& trouble : scanner_->troubles) {
      found.append(nb::make_tuple(trouble.place, trouble.text, trouble.fatal));
    }
    return found;
  }

  nb::tuple malformed() const {
    return nb::make_tuple(scanner_->malformed, scanner_->first_malformed,
                          std::string(scanner_->malformed_reason));
  }

  nb::bytes metadata() const {
    std::string text = scanner_->metadata;
    text += text.empty() ? "{}" : "}";
    return nb::bytes(text.data(), text.size());
  }

  nb::tuple spans() {
    Spans& s = scanner_->table.spans;
    return nb::make_tuple(array_of(std::move(s.start_ns)), array_of(std::move(s.duration_ns)),
                          array_of(std::move(s.kind)), array_of(std::move(s.name)),
                          array_of(std::move(s.lane)), array_of(std::move(s.correlation)),
                          array_of(std::move(s.bytes)));
  }

  nb::tuple counters() {
    Counters& c = scanner_->table.counters;
    return nb::make_tuple(array_of(std::move(c.time_ns)), array_of(std::move(c.name)),
                          array_of(std::move(c.value)));
  }

  nb::tuple flows() {
    Flows& f = scanner_->table.flows;
    return nb::make_tuple(array_of(std::move(f.phase)), array_of(std::move(f.name)),
                          array_of(std::move(f.lane)), array_of(std::move(f.id)),
                          array_of(std::move(f.time_ns)));
  }

  nb::dict arguments() {
    nb::dict found;
    for (Argument& argument : scanner_->table.arguments) {
      if (argument.rows.size() == 0) continue;
      nb::object values = argument.type == ArgumentType::kReal
                              ? array_of(std::move(argument.reals))
                              : array_of(std::move(argument.integers));
      nb::object rows = array_of(std::move(argument.rows));
      found[argument.key.c_str()] = nb::make_tuple(rows, values);
    }
    return found;
  }

  nb::list names() const { return texts_of(scanner_->table.names); }
  nb::list texts() const { return texts_of(scanner_->table.texts); }

  nb::list lanes() const {
    const Interner& lanes = scanner_->table.lanes;
    nb::list found;
    for (uint32_t i = 0; i < lanes.size(); i++) {
      auto [process, thread] = Table::lane_parts(lanes.text(i));
      found.append(nb::make_tuple(text_object(process), text_object(thread)));
    }
    return found;
  }

  nb::list lane_names() const {
    nb::list found;
    for (const auto& [lane, name] : scanner_->table.lane_names) {
      found.append(nb::make_tuple(lane, text_object(name)));
    }
    return found;
  }

  nb::list process_names() const {
    nb::list found;
    for (const auto& [process, name] : scanner_->table.process_names) {
      found.append(nb::make_tuple(text_object(process), text_object(name)));
    }
    return found;
  }

  nb::dict skipped() const {
    nb::dict found;
    const auto& counts = scanner_->table.skipped;
    for (size_t phase = 0; phase < counts.size(); phase++) {
      std::string key(1, static_cast<char>(phase));
      if (counts[phase] > 0) found[key.c_str()] = counts[phase];
    }
    return found;
  }

  nb::dict dropped() const {
    const Table& table = scanner_->table;
    nb::dict found;
    found["spans with a negative or impossible time"] = dropped_of(table.impossible);
    found["ends without a begin"] = dropped_of(table.ends);
    found["begins without an end"] = dropped_of(table.begins);
    found["counter values that are no numbers"] = dropped_of(table.values);
    found["counters with a negative or impossible time"] = dropped_of(table.times_of_counters);
    return found;
  }

  nb::tuple repaired() const { return dropped_of(scanner_->table.repaired); }

  nb::tuple overflowed() const {
    const Table& table = scanner_->table;
    return nb::make_tuple(table.names.overflowed(), table.lanes.overflowed(),
                          table.texts.overflowed());
  }

 private:
  std::unique_ptr<Scanner> scanner_;
};

}  // namespace
}  // namespace pilotlight::scan

NB_MODULE(_scan, m) {
  using pilotlight::scan::PyScanner;
  m.attr("NOWHERE") = pilotlight::scan::kNowhere;
  m.def(
      "set_budget",
      [](uint64_t memory_bytes, const std::string& folder) {
        pilotlight::scan::Budget::set(memory_bytes, folder.c_str());
      },
      nb::arg("memory_bytes"), nb::arg("folder"));
  m.def("budget_bytes", &pilotlight::scan::Budget::bytes);
  m.def("peak_bytes", &pilotlight::scan::Budget::peak_bytes);
  m.def("bound_arrays", &pilotlight::scan::bound_arrays, nb::arg("numpy_functions"));
  m.def("set_handler", &pilotlight::scan::set_handler, nb::arg("numpy_functions"),
        nb::arg("handler"));
  m.def("join", &pilotlight::scan::join_into, nb::arg("start"), nb::arg("end"),
        nb::arg("new_start").noconvert(), nb::arg("new_end").noconvert());
  m.def("combine", &pilotlight::scan::combine_into, nb::arg("start"), nb::arg("end"),
        nb::arg("other_start"), nb::arg("other_end"), nb::arg("wanted"),
        nb::arg("new_start").noconvert(), nb::arg("new_end").noconvert());
  m.def("cover", &pilotlight::scan::cover_into, nb::arg("start"), nb::arg("end"),
        nb::arg("before").noconvert(), nb::arg("times"), nb::arg("found").noconvert());
  nb::class_<PyScanner>(m, "Scanner")
      .def(nb::init<std::vector<std::pair<std::string, int>>, uint64_t, uint64_t,
                    std::vector<std::pair<std::string, int>>, std::vector<std::string>, uint32_t,
                    uint32_t>(),
           nb::kw_only(), nb::arg("kinds"), nb::arg("with_correlation"), nb::arg("with_bytes"),
           nb::arg("arguments"), nb::arg("unused_flows"), nb::arg("most_names"),
           nb::arg("most_lanes"))
      .def("feed", &PyScanner::feed)
      .def("finish", &PyScanner::finish)
      .def("troubles", &PyScanner::troubles)
      .def("malformed", &PyScanner::malformed)
      .def("metadata", &PyScanner::metadata)
      .def("spans", &PyScanner::spans)
      .def("counters", &PyScanner::counters)
      .def("flows", &PyScanner::flows)
      .def("arguments", &PyScanner::arguments)
      .def("names", &PyScanner::names)
      .def("texts", &PyScanner::texts)
      .def("lanes", &PyScanner::lanes)
      .def("lane_names", &PyScanner::lane_names)
      .def("process_names", &PyScanner::process_names)
      .def("skipped", &PyScanner::skipped)
      .def("dropped", &PyScanner::dropped)
      .def("repaired", &PyScanner::repaired)
      .def("overflowed", &PyScanner::overflowed);
}
