// native/scan/table.h: the columns of one trace, from its events.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "scan/column.h"
#include "scan/event.h"
#include "scan/interner.h"
#include "scan/number.h"

namespace pilotlight::scan {

constexpr uint64_t kNowhere = UINT64_MAX;

enum class ArgumentType : uint8_t { kInteger, kReal, kText };

struct Limits {
  uint32_t names = 2'000'000;
  uint32_t lanes = 1'000'000;
  uint32_t texts = 1'000'000;
  size_t text_bytes = size_t{256} << 20;  // of each of the three
};

struct Settings {
  std::vector<std::pair<std::string, uint8_t>> kinds;  // by category; all else is 0
  uint64_t with_correlation = 0;                       // a bit for each kind
  uint64_t with_bytes = 0;
  std::vector<std::pair<std::string, ArgumentType>> arguments;
  std::vector<std::string> unused_flows;  // categories that only repeat correlation ids
  Limits limits;
};

// A member of `args` of those spans that have it.
struct Argument {
  std::string key;
  ArgumentType type;
  Column<uint32_t> rows;
  Column<int64_t> integers;  // also the numbers of texts
  Column<double> reals;
};

struct Spans {
  Column<int64_t> start_ns, duration_ns;
  Column<uint8_t> kind;
  Column<uint32_t> name, lane;
  Column<int64_t> correlation, bytes;
};

struct Counters {
  Column<int64_t> time_ns;
  Column<uint32_t> name;
  Column<double> value;
};

// Ends of arrows; `phase` is s, t or f.
struct Flows {
  Column<uint8_t> phase;
  Column<uint32_t> name, lane;
  Column<int64_t> id, time_ns;
};

// What was left out of something, and where the first of it was.
struct Dropped {
  uint64_t count = 0;
  uint64_t first = kNowhere;
  void add(uint64_t place) {
    if (count++ == 0) first = place;
  }
};

class Table {
 public:
  explicit Table(const Settings& settings);

  const Keys& keys() const { return keys_; }
  // nullptr, or why the event cannot be used. `place` is where it begins.
  const char* add(const Event& event, uint64_t place);
  // After the last event.
  void close();
  // The disk and the memory are full: columns are shorter than they should be.
  bool is_full() const { return full_; }

  Spans spans;
  Counters counters;
  Flows flows;
  Interner names, lanes, texts;
  std::vector<Argument> arguments;
  std::vector<std::pair<uint32_t, std::string>> lane_names;        // by lane
  std::vector<std::pair<std::string, std::string>> process_names;  // by process, in order
  std::array<uint64_t, 128> skipped{};                             // by phase
  Dropped impossible, ends, begins, values, times_of_counters;
  Dropped repaired;  // names that are kept, but not as they were

  // The two texts of a lane, as in `lanes`.
  static std::pair<std::string_view, std::string_view> lane_parts(std::string_view text);

 private:
  struct Open {
    int64_t start_ns, correlation, bytes;
    uint64_t place;
    uint32_t name;
    uint8_t kind;
  };

  const char* add_known(const Event& event, uint64_t place);
  const char* add_span(const Event& event, uint64_t place);
  const char* begin(const Event& event, uint64_t place);
  const char* end(const Event& event, uint64_t place);
  const char* add_counter(const Event& event, uint64_t place);
  const char* add_memory(const Event& event, uint64_t place);
  void add_metadata(const Event& event);
  const char* add_flow(const Event& event);

  const char* time(const Value& value, int64_t* time_ns);
  uint8_t kind_of(const Value& category);
  uint32_t name_of(const Value& name);
  uint32_t lane_of(const Event& event);
  void number(const Event& event, int key, int64_t* value) const;
  void push_external(const Event& event, int64_t correlation);
  bool push(int64_t start_ns, int64_t duration_ns, uint8_t kind, uint32_t name, uint32_t lane,
            int64_t correlation, int64_t bytes, uint64_t place);
  void push_counter(int64_t time_ns, std::string_view name, double value, uint64_t place);
  void push_arguments(const Event& event, uint32_t row);
  void check(bool done) { full_ |= !done; }

  Keys keys_, categories_, unused_flows_;
  std::vector<uint8_t> kind_of_category_;
  uint64_t with_correlation_, with_bytes_;
  int first_argument_;
  bool unit_known_ = false;
  Unit unit_ = Unit::kMicroseconds;
  bool full_ = false;
  // Files of old ROCm builds tie calls to kernels by "External id" alone; where there are
  // correlations it is the number of an operator.
  bool has_correlation_ = false;
  Column<uint32_t> external_row_;
  Column<int64_t> external_;
  std::unordered_map<uint32_t, std::vector<Open>> open_;
  std::string last_process_, last_thread_, scratch_, other_scratch_;
  uint32_t last_lane_ = kNoText;
};

}  // namespace pilotlight::scan
