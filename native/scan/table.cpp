// native/scan/table.cpp
#include "scan/table.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "scan/utf8.h"

namespace pilotlight::scan {
namespace {

// Members of `args` with a column or a use of their own, by their number in the keys.
enum Own {
  kCorrelation,
  kExternal,
  kBytes,
  kName,
  kLabels,
  kAllocated,
  kReserved,
  kDevice,
  kOwnCount
};
constexpr const char* kOwnKeys[kOwnCount] = {"correlation",    "External id", "bytes",
                                             "name",           "labels",      "Total Allocated",
                                             "Total Reserved", "Device Id"};

constexpr int64_t kNotSaid = -1;
constexpr const char* kUnusedPhases = "benISTpFPNODRcvVa()";
constexpr const char* kNoTime = "its time is no number";
constexpr size_t kMostProcessNames = 100'000;

// A name as text: numbers as written, nothing for null.
std::string_view text_of(const Value& value, std::string* scratch) {
  switch (value.kind) {
    case ValueKind::kString:
      if (!value.escaped) return value.raw();
      scratch->clear();
      unescape(value.raw(), scratch);
      return *scratch;
    case ValueKind::kNumber:
      return value.raw();
    case ValueKind::kLiteral:
      return value.raw() == "null" ? std::string_view() : value.raw();
    default:
      return {};
  }
}

}  // namespace

Table::Table(const Settings& settings)
    : names(settings.limits.names, settings.limits.text_bytes, "(more names than fit)"),
      lanes(settings.limits.lanes, settings.limits.text_bytes, "0:(more lanes than fit)"),
      texts(settings.limits.texts, settings.limits.text_bytes, ""),
      with_correlation_(settings.with_correlation),
      with_bytes_(settings.with_bytes),
      first_argument_(kOwnCount) {
  for (const char* key : kOwnKeys) keys_.add(key);
  for (const auto& [key, type] : settings.arguments) {
    if (keys_.size() == Keys::kMost) break;
    keys_.add(key);
    arguments.push_back(Argument{key, type, {}, {}, {}});
  }
  for (const auto& [category, kind] : settings.kinds) {
    categories_.add(category);
    kind_of_category_.push_back(kind);
  }
  for (const std::string& category : settings.unused_flows) unused_flows_.add(category);
}

std::pair<std::string_view, std::string_view> Table::lane_parts(std::string_view text) {
  size_t colon = text.find(':');
  if (colon == std::string_view::npos) return {};
  size_t length = std::strtoul(std::string(text.substr(0, colon)).c_str(), nullptr, 10);
  text.remove_prefix(colon + 1);
  if (length > text.size()) return {text, {}};
  return {text.substr(0, length), text.substr(length)};
}

const char* Table::add(const Event& event, uint64_t place) {
  uint64_t before = names.repaired();
  const char* reason = add_known(event, place);
  if (names.repaired() != before) repaired.add(place);
  return reason;
}

const char* Table::add_known(const Event& event, uint64_t place) {
  if (event.phase.kind != ValueKind::kString) return "it has no phase";
  std::string unescaped;
  if (event.phase.escaped) unescape(event.phase.raw(), &unescaped);
  std::string_view text = event.phase.escaped ? unescaped : event.phase.raw();
  if (text.size() != 1) return "it has no phase";
  char phase = text.front();
  switch (phase) {
    case 'X':
      return add_span(event, place);
    case 'B':
      return begin(event, place);
    case 'E':
      return end(event, place);
    case 'C':
      return add_counter(event, place);
    case 'i':
      return add_memory(event, place);
    case 'M':
      add_metadata(event);
      return nullptr;
    case 's':
    case 't':
    case 'f':
      return add_flow(event);
    default:
      break;
  }
  if (phase == '\0' || std::strchr(kUnusedPhases, phase) == nullptr) return "an unknown phase";
  skipped[static_cast<size_t>(phase)]++;
  return nullptr;
}

void Table::close() {
  for (const auto& [lane, opened] : open_) {
    for (const Open& one : opened) {
      begins.count++;
      if (one.place < begins.first) begins.first = one.place;
    }
  }
  open_.clear();
  size_t known = std::min(external_row_.size(), external_.size());
  for (size_t i = 0; i < known; i++) spans.correlation[external_row_[i]] = external_[i];
}

const char* Table::time(const Value& value, int64_t* time_ns) {
  if (value.kind == ValueKind::kNone) return "it has no time";
  if (!unit_known_) {
    unit_known_ = true;
    if (is_nanoseconds(value)) unit_ = Unit::kNanoseconds;
  }
  return read_time(value, unit_, time_ns) ? nullptr : kNoTime;
}

const char* Table::add_span(const Event& event, uint64_t place) {
  int64_t start_ns, duration_ns = 0;
  if (const char* reason = time(event.time, &start_ns)) return reason;
  if (event.duration.kind != ValueKind::kNone && !read_time(event.duration, unit_, &duration_ns)) {
    return "its duration is no number";
  }
  uint8_t kind = kind_of(event.category);
  int64_t correlation = kNotSaid, bytes = kNotSaid;
  if ((with_correlation_ >> kind & 1) != 0) number(event, kCorrelation, &correlation);
  if ((with_bytes_ >> kind & 1) != 0) number(event, kBytes, &bytes);
  bool used = push(start_ns, duration_ns, kind, name_of(event.name), lane_of(event), correlation,
                   bytes, place);
  if (used && (with_correlation_ >> kind & 1) != 0) push_external(event, correlation);
  if (used && event.present >> first_argument_ != 0) {
    push_arguments(event, static_cast<uint32_t>(spans.start_ns.size() - 1));
  }
  return nullptr;
}

const char* Table::begin(const Event& event, uint64_t place) {
  Open open{0, kNotSaid, kNotSaid, place, name_of(event.name), kind_of(event.category)};
  if (const char* reason = time(event.time, &open.start_ns)) return reason;
  if ((with_correlation_ >> open.kind & 1) != 0) number(event, kCorrelation, &open.correlation);
  if ((with_bytes_ >> open.kind & 1) != 0) number(event, kBytes, &open.bytes);
  open_[lane_of(event)].push_back(open);
  return nullptr;
}

const char* Table::end(const Event& event, uint64_t place) {
  int64_t end_ns;
  if (const char* reason = time(event.time, &end_ns)) return reason;
  uint32_t lane = lane_of(event);
  auto found = open_.find(lane);
  if (found == open_.end()) {
    ends.add(place);
    return nullptr;
  }
  Open open = found->second.back();
  found->second.pop_back();
  if (found->second.empty()) open_.erase(found);
  int64_t duration_ns = kImpossible;
  if (end_ns != kImpossible && open.start_ns != kImpossible) duration_ns = end_ns - open.start_ns;
  push(open.start_ns, duration_ns, open.kind, open.name, lane, open.correlation, open.bytes,
       open.place);
  return nullptr;
}

const char* Table::add_counter(const Event& event, uint64_t place) {
  int64_t time_ns;
  if (const char* reason = time(event.time, &time_ns)) return reason;
  if (event.arguments.kind != ValueKind::kObject) return nullptr;
  Cursor c{event.arguments.begin, event.arguments.begin + event.arguments.length};
  read_members(&c, [&](const Value& key, Cursor* inner) {
    Value value;
    Outcome outcome = read_value(inner, &value);
    double number;
    if (read_real(value, &number) && std::fabs(number) < 1e300) {
      other_scratch_.assign(text_of(event.name, &scratch_)).append(" ");
      other_scratch_.append(text_of(key, &scratch_));
      push_counter(time_ns, other_scratch_, number, place);
    } else {
      values.add(place);
    }
    return outcome;
  });
  return nullptr;
}

const char* Table::add_memory(const Event& event, uint64_t place) {
  int64_t time_ns;
  if (!event.has(kAllocated) && !event.has(kReserved)) {
    skipped['i']++;
    return nullptr;
  }
  if (const char* reason = time(event.time, &time_ns)) return reason;
  for (auto [key, title] : {std::pair(kAllocated, "allocated"), std::pair(kReserved, "reserved")}) {
    double value;
    if (!event.has(key)) continue;
    if (!read_real(event.argument(key), &value)) {
      values.add(place);
      continue;
    }
    other_scratch_.assign(title).append(" device ");
    if (event.has(kDevice)) other_scratch_.append(text_of(event.argument(kDevice), &scratch_));
    push_counter(time_ns, other_scratch_, value, place);
  }
  return nullptr;
}

void Table::add_metadata(const Event& event) {
  std::string_view title = text_of(event.name, &scratch_);
  bool names_thread = title == "thread_name";
  bool names_process = title == "process_name" || title == "process_labels";
  int key = title == "process_labels" ? kLabels : kName;
  if ((!names_thread && !names_process) || !event.has(key)) return;
  if (event.argument(key).kind != ValueKind::kString) return;
  std::string given;
  append_clean(text_of(event.argument(key), &scratch_), &given);
  if (names_thread) {
    uint32_t lane = lane_of(event);
    if (lane != kNoText && lane_names.size() < lanes.size() + kMostProcessNames) {
      lane_names.emplace_back(lane, std::move(given));
    }
  } else if (process_names.size() < kMostProcessNames) {
    std::string process;
    append_clean(text_of(event.process, &scratch_), &process);
    process_names.emplace_back(std::move(process), std::move(given));
  }
}

const char* Table::add_flow(const Event& event) {
  auto phase = static_cast<uint8_t>(*event.phase.begin);
  int64_t id, time_ns;
  bool unused = event.category.kind == ValueKind::kString &&
                unused_flows_.find(event.category.raw()) != Keys::kNone;
  if (unused || !read_integer(event.id, &id) || event.time.kind == ValueKind::kNone) {
    skipped[phase]++;
    return nullptr;
  }
  if (const char* reason = time(event.time, &time_ns)) return reason;
  if (time_ns < 0) {
    skipped[phase]++;
    return nullptr;
  }
  check(flows.phase.push(phase) && flows.name.push(name_of(event.name)) &&
        flows.lane.push(lane_of(event)) && flows.id.push(id) && flows.time_ns.push(time_ns));
  return nullptr;
}

uint8_t Table::kind_of(const Value& category) {
  if (category.kind != ValueKind::kString) return 0;
  int number = categories_.find(text_of(category, &scratch_));
  return number == Keys::kNone ? 0 : kind_of_category_[static_cast<size_t>(number)];
}

uint32_t Table::name_of(const Value& name) {
  uint32_t number = names.add(text_of(name, &scratch_));
  check(number != kNoText);
  return number;
}

uint32_t Table::lane_of(const Event& event) {
  std::string_view process = text_of(event.process, &scratch_);
  std::string_view thread = text_of(event.thread, &other_scratch_);
  if (last_lane_ != kNoText && process == last_process_ && thread == last_thread_) {
    return last_lane_;
  }
  last_process_.clear();
  last_thread_.clear();
  append_clean(process, &last_process_);
  append_clean(thread, &last_thread_);
  std::string key = std::to_string(last_process_.size()) + ":";
  last_lane_ = lanes.add(key.append(last_process_).append(last_thread_));
  check(last_lane_ != kNoText);
  return last_lane_;
}

void Table::number(const Event& event, int key, int64_t* value) const {
  if (event.has(key) && !read_integer(event.argument(key), value)) *value = kNotSaid;
}

// Of the span that was pushed last.
void Table::push_external(const Event& event, int64_t correlation) {
  if (has_correlation_) return;
  if (correlation != kNotSaid) {
    has_correlation_ = true;
    external_row_ = {};
    external_ = {};
    return;
  }
  int64_t external = kNotSaid;
  number(event, kExternal, &external);
  if (external < 0) return;
  uint32_t row = static_cast<uint32_t>(spans.start_ns.size() - 1);
  check(external_row_.push(row) && external_.push(external));
}

bool Table::push(int64_t start_ns, int64_t duration_ns, uint8_t kind, uint32_t name, uint32_t lane,
                 int64_t correlation, int64_t bytes, uint64_t place) {
  if (start_ns < 0 || duration_ns < 0 || duration_ns > INT64_MAX - start_ns) {
    impossible.add(place);
    return false;
  }
  if (full_ || spans.start_ns.size() >= UINT32_MAX) {
    full_ = true;
    return false;
  }
  check(spans.start_ns.push(start_ns) && spans.duration_ns.push(duration_ns) &&
        spans.kind.push(kind) && spans.name.push(name) && spans.lane.push(lane) &&
        spans.correlation.push(correlation) && spans.bytes.push(bytes));
  return !full_;
}

void Table::push_counter(int64_t time_ns, std::string_view name, double value, uint64_t place) {
  if (time_ns < 0) {
    times_of_counters.add(place);
    return;
  }
  uint32_t number = names.add(name);
  check(number != kNoText && counters.time_ns.push(time_ns) && counters.name.push(number) &&
        counters.value.push(value));
}

void Table::push_arguments(const Event& event, uint32_t row) {
  for (uint64_t left = event.present >> first_argument_; left != 0; left &= left - 1) {
    auto i = static_cast<size_t>(__builtin_ctzll(left));
    Argument& argument = arguments[i];
    const Value& value = event.argument(first_argument_ + static_cast<int>(i));
    int64_t integer;
    double real;
    switch (argument.type) {
      case ArgumentType::kInteger:
        if (!read_integer(value, &integer)) break;
        check(argument.rows.push(row) && argument.integers.push(integer));
        break;
      case ArgumentType::kReal:
        if (!read_real(value, &real)) break;
        check(argument.rows.push(row) && argument.reals.push(real));
        break;
      case ArgumentType::kText: {
        bool is_text = value.kind == ValueKind::kString;
        uint32_t number = texts.add(is_text ? text_of(value, &scratch_) : value.raw());
        if (number == kNoText) break;
        check(argument.rows.push(row) && argument.integers.push(number));
        break;
      }
    }
  }
}

}  // namespace pilotlight::scan
