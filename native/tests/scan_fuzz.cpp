// native/tests/scan_fuzz.cpp: any bytes as a trace; how they are cut into blocks must not matter.
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "scan/scanner.h"

namespace {

using pilotlight::scan::ArgumentType;
using pilotlight::scan::Column;
using pilotlight::scan::Interner;
using pilotlight::scan::Scanner;
using pilotlight::scan::Settings;
using pilotlight::scan::Table;

Settings settings() {
  Settings s;
  s.kinds = {{"kernel", 5}, {"cpu_op", 1}, {"gpu_memcpy", 6}};
  s.with_correlation = 1 << 5 | 1 << 6;
  s.with_bytes = 1 << 6;
  s.arguments = {{"grid", ArgumentType::kText},
                 {"Group size", ArgumentType::kInteger},
                 {"occupancy", ArgumentType::kReal}};
  s.unused_flows = {"ac2g"};
  s.limits.names = 8;
  s.limits.lanes = 8;
  s.limits.texts = 8;
  s.limits.text_bytes = 256;
  return s;
}

void need(bool holds) {
  if (!holds) abort();
}

template <typename T>
void add(const Column<T>& column, size_t rows, std::string* out) {
  need(column.size() == rows);
  if (rows > 0) out->append(reinterpret_cast<const char*>(column.data()), rows * sizeof(T));
}

void add(const Interner& interner, std::string* out) {
  for (uint32_t i = 0; i < interner.size(); i++) out->append(interner.text(i)).append("\n");
}

// Everything that was found, as one text to compare.
std::string found(std::string_view bytes, size_t block_bytes) {
  Scanner scanner(settings());
  for (size_t i = 0; i < bytes.size(); i += block_bytes) scanner.feed(bytes.substr(i, block_bytes));
  scanner.finish();
  need(scanner.is_done());
  const Table& table = scanner.table;
  std::string out = scanner.metadata;
  size_t rows = table.spans.start_ns.size();
  add(table.spans.start_ns, rows, &out);
  add(table.spans.duration_ns, rows, &out);
  add(table.spans.kind, rows, &out);
  add(table.spans.name, rows, &out);
  add(table.spans.lane, rows, &out);
  add(table.spans.correlation, rows, &out);
  add(table.spans.bytes, rows, &out);
  for (size_t i = 0; i < rows; i++) {
    need(table.spans.start_ns[i] >= 0 && table.spans.duration_ns[i] >= 0);
    need(table.spans.duration_ns[i] <= INT64_MAX - table.spans.start_ns[i]);
    need(table.spans.name[i] < table.names.size() && table.spans.lane[i] < table.lanes.size());
  }
  size_t values = table.counters.value.size();
  add(table.counters.time_ns, values, &out);
  add(table.counters.name, values, &out);
  add(table.counters.value, values, &out);
  size_t ends = table.flows.id.size();
  add(table.flows.phase, ends, &out);
  add(table.flows.name, ends, &out);
  add(table.flows.lane, ends, &out);
  add(table.flows.id, ends, &out);
  add(table.flows.time_ns, ends, &out);
  for (const auto& argument : table.arguments) {
    size_t said = argument.rows.size();
    add(argument.rows, said, &out);
    need(argument.integers.size() + argument.reals.size() == said);
    for (size_t i = 0; i < said; i++) {
      need(argument.rows[i] < rows);
      need(argument.type != ArgumentType::kText ||
           argument.integers[i] < static_cast<int64_t>(table.texts.size()));
    }
  }
  add(table.names, &out);
  add(table.lanes, &out);
  add(table.texts, &out);
  for (const auto& [lane, name] : table.lane_names) {
    need(lane < table.lanes.size());
    out.append(name);
  }
  for (const auto& trouble : scanner.troubles) {
    out.append(trouble.text).append(std::to_string(trouble.place));
  }
  out.append(std::to_string(scanner.malformed)).append(" ");
  out.append(std::to_string(scanner.first_malformed));
  return out;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string whole = found(bytes, bytes.size() + 1);
  need(whole == found(bytes, 1 + data[0] % 64));
  return 0;
}
