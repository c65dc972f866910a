// native/drain/tables.cpp
#include "drain/tables.h"

#include <array>
#include <cstring>

namespace pilotlight {
namespace {

Column repeated(const char* name, uint32_t value, size_t count) {
  Column column(name, count * sizeof(value));
  char* to = column.data();
  for (size_t i = 0; i < count; i++) std::memcpy(to + i * sizeof(value), &value, sizeof(value));
  return column;
}

template <typename Row, typename T>
size_t width(T Row::*) {
  return sizeof(T);
}

template <typename Row, typename T>
void put(char** to, const Row& row, T Row::* member) {
  std::memcpy(*to, &(row.*member), sizeof(T));
  *to += sizeof(T);
}

// Members of rows as columns, in one pass over the rows.
template <typename Row, typename... Named, size_t... I>
void add_columns(std::vector<Column>* columns, const std::vector<Row>& rows,
                 std::index_sequence<I...>, Named... named) {
  size_t first = columns->size();
  (columns->emplace_back(named.first, rows.size() * width(named.second)), ...);
  std::array<char*, sizeof...(Named)> to = {(*columns)[first + I].data()...};
  for (const Row& row : rows) (put(&to[I], row, named.second), ...);
}

template <typename Row, typename... Named>
void add_table(std::vector<Table>* tables, const char* name, uint32_t process,
               const std::vector<Row>& rows, Named... named) {
  if (rows.empty()) return;
  Table table = {name, rows.size(), {}};
  table.columns.reserve(sizeof...(Named) + 1);
  table.columns.push_back(repeated("process", process, rows.size()));
  add_columns(&table.columns, rows, std::index_sequence_for<Named...>(), named...);
  tables->push_back(std::move(table));
}

template <typename T>
std::pair<const char*, T> as(const char* name, T member) {
  return {name, member};
}

void add_steps(std::vector<Table>* tables, uint32_t process, const std::vector<StepRow>& rows) {
  add_table(tables, "steps", process, rows, as("thread", &StepRow::thread),
            as("step", &StepRow::step), as("start_ns", &StepRow::start_ns),
            as("duration_ns", &StepRow::duration_ns));
}

void add_threads(std::vector<Table>* tables, uint32_t process, const std::vector<ThreadRow>& rows) {
  add_table(tables, "threads", process, rows, as("thread", &ThreadRow::thread),
            as("name", &ThreadRow::name));
}

}  // namespace

std::string valid_utf8(const std::string& text) {
  std::string out;
  out.reserve(text.size());
  size_t i = 0;
  while (i < text.size()) {
    auto lead = static_cast<unsigned char>(text[i]);
    size_t length = lead < 0x80       ? 1
                    : lead >> 5 == 6  ? 2
                    : lead >> 4 == 14 ? 3
                    : lead >> 3 == 30 ? 4
                                      : 0;
    uint32_t point = length == 1 ? lead : lead & (0xffu >> (length + 1));
    bool good = length != 0 && i + length <= text.size();
    for (size_t k = 1; good && k < length; k++) {
      auto next = static_cast<unsigned char>(text[i + k]);
      good = next >> 6 == 2;
      point = point << 6 | (next & 0x3f);
    }
    // Overlong forms, surrogates and points beyond Unicode are not UTF-8 either.
    static constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    good = good && point >= kLeast[length] && point <= 0x10ffff && (point >> 11) != 0x1b;
    if (good) {
      out.append(text, i, length);
      i += length;
    } else {
      out.append("\xef\xbf\xbd");
      i++;
    }
  }
  return out;
}

void DefinitionTables::Text::add(const std::string& text) {
  characters += text;
  auto end = static_cast<uint32_t>(characters.size());
  offsets.append(reinterpret_cast<const char*>(&end), sizeof(end));
}

void DefinitionTables::Text::add_to(std::vector<Column>* columns, const char* name,
                                    const char* offsets_name) const {
  columns->emplace_back(name, characters);
  columns->emplace_back(offsets_name, offsets);
}

std::string DefinitionTables::text(uint32_t id) const {
  std::string raw;
  if (!reader_->string(id, &raw)) return {};
  return valid_utf8(raw);
}

void DefinitionTables::new_name(uint32_t id) {
  std::string raw;
  if (!reader_->string(id, &raw)) return;
  name_ids_.push_back(id);
  names_.add(valid_utf8(raw));
}

void DefinitionTables::frame(uint32_t id) {
  Frame frame;
  if (!given_->add(id) || !reader_->frame(id, &frame)) return;
  frames_.push_back({id, frame.line, frame.first_line});
  functions_.add(text(frame.function));
  files_.add(text(frame.file));
}

void DefinitionTables::new_stack(uint32_t id) {
  Stack entry;
  // Ends at the latest at the first entry of the arena: parents come before their children.
  while (reader_->stack(id, &entry)) {
    stacks_.push_back({id, entry.parent, entry.frame});
    frame(entry.frame);
    id = entry.parent;
    if (!given_->add(id)) return;
  }
}

void DefinitionTables::new_track(uint32_t id) {
  Track entry;
  if (!reader_->track(id, &entry)) return;
  name(entry.name);
  tracks_.push_back({id, entry.name, entry.kind, entry.device, entry.stream});
}

std::vector<Table> DefinitionTables::tables(uint32_t process) && {
  std::vector<Table> tables;
  if (!name_ids_.empty()) {
    std::string_view ids(reinterpret_cast<const char*>(name_ids_.data()),
                         name_ids_.size() * sizeof(uint32_t));
    Table table = {"names", name_ids_.size(), {}};
    table.columns.push_back(repeated("process", process, name_ids_.size()));
    table.columns.emplace_back("id", ids);
    names_.add_to(&table.columns, "text", "text:offsets");
    tables.push_back(std::move(table));
  }
  if (!frames_.empty()) {
    add_table(&tables, "frames", process, frames_, as("id", &FrameRow::id),
              as("line", &FrameRow::line), as("first_line", &FrameRow::first_line));
    functions_.add_to(&tables.back().columns, "function", "function:offsets");
    files_.add_to(&tables.back().columns, "file", "file:offsets");
  }
  add_table(&tables, "stacks", process, stacks_, as("id", &StackRow::id),
            as("parent", &StackRow::parent), as("frame", &StackRow::frame));
  add_table(&tables, "tracks", process, tracks_, as("id", &TrackRow::id),
            as("name", &TrackRow::name), as("kind", &TrackRow::kind),
            as("device", &TrackRow::device), as("stream", &TrackRow::stream));
  return tables;
}

std::vector<Table> detail_tables(const Rows& rows, uint32_t process,
                                 const DefinitionReader& definitions, IdSet* given) {
  DefinitionTables used(&definitions, given);
  for (const SpanRow& row : rows.spans) used.name(row.name);
  for (const SampleRow& row : rows.samples) used.stack(row.stack);
  for (const CounterRow& row : rows.counters) used.name(row.name);
  for (const MarkRow& row : rows.marks) used.name(row.name);
  for (const ThreadRow& row : rows.threads) used.name(row.name);
  for (const ActivityRow& row : rows.activities) {
    used.name(row.name);
    used.name(row.range);
    used.track(row.track);
    used.stack(row.stack);
  }
  for (const LaunchRow& row : rows.launches) {
    used.name(row.name);
    used.stack(row.stack);
  }
  for (const CollectiveRow& row : rows.collectives) {
    used.name(row.name);
    used.name(row.group);
    used.name(row.dtype);
  }
  // Definitions first: rows never refer to what is not there yet.
  std::vector<Table> tables = std::move(used).tables(process);
  add_threads(&tables, process, rows.threads);
  add_table(&tables, "spans", process, rows.spans, as("thread", &SpanRow::thread),
            as("name", &SpanRow::name), as("kind", &SpanRow::kind), as("flags", &SpanRow::flags),
            as("start_ns", &SpanRow::start_ns), as("duration_ns", &SpanRow::duration_ns));
  add_table(&tables, "samples", process, rows.samples, as("thread", &SampleRow::thread),
            as("stack", &SampleRow::stack), as("state", &SampleRow::state),
            as("flags", &SampleRow::flags), as("time_ns", &SampleRow::time_ns),
            as("weight_ns", &SampleRow::weight_ns));
  add_table(&tables, "counters", process, rows.counters, as("thread", &CounterRow::thread),
            as("name", &CounterRow::name), as("time_ns", &CounterRow::time_ns),
            as("value", &CounterRow::value));
  add_table(&tables, "marks", process, rows.marks, as("thread", &MarkRow::thread),
            as("name", &MarkRow::name), as("kind", &MarkRow::kind),
            as("time_ns", &MarkRow::time_ns), as("value", &MarkRow::value));
  add_table(&tables, "gaps", process, rows.gaps, as("ring", &GapRow::ring),
            as("reason", &GapRow::reason), as("first_ns", &GapRow::first_ns),
            as("last_ns", &GapRow::last_ns), as("count", &GapRow::count));
  add_table(&tables, "activities", process, rows.activities, as("thread", &ActivityRow::thread),
            as("name", &ActivityRow::name), as("track", &ActivityRow::track),
            as("kind", &ActivityRow::kind), as("flags", &ActivityRow::flags),
            as("start_ns", &ActivityRow::start_ns), as("duration_ns", &ActivityRow::duration_ns),
            as("correlation", &ActivityRow::correlation), as("bytes", &ActivityRow::bytes),
            as("stack", &ActivityRow::stack), as("range", &ActivityRow::range),
            as("detail", &ActivityRow::detail));
  add_table(&tables, "launches", process, rows.launches, as("thread", &LaunchRow::thread),
            as("name", &LaunchRow::name), as("kind", &LaunchRow::kind),
            as("flags", &LaunchRow::flags), as("start_ns", &LaunchRow::start_ns),
            as("duration_ns", &LaunchRow::duration_ns), as("correlation", &LaunchRow::correlation),
            as("stack", &LaunchRow::stack));
  add_table(&tables, "collectives", process, rows.collectives, as("thread", &CollectiveRow::thread),
            as("name", &CollectiveRow::name), as("group", &CollectiveRow::group),
            as("dtype", &CollectiveRow::dtype), as("rank", &CollectiveRow::rank),
            as("world_size", &CollectiveRow::world_size), as("flags", &CollectiveRow::flags),
            as("start_ns", &CollectiveRow::start_ns),
            as("duration_ns", &CollectiveRow::duration_ns), as("wait_ns", &CollectiveRow::wait_ns),
            as("bytes", &CollectiveRow::bytes), as("sequence", &CollectiveRow::sequence),
            as("correlation", &CollectiveRow::correlation));
  add_steps(&tables, process, rows.steps);
  add_table(&tables, "sampler", process, rows.sampler, as("time_ns", &SamplerRow::time_ns),
            as("passes", &SamplerRow::passes), as("taken", &SamplerRow::taken),
            as("torn", &SamplerRow::torn), as("skipped", &SamplerRow::skipped),
            as("cpu_ns", &SamplerRow::cpu_ns), as("period_ns", &SamplerRow::period_ns));
  return tables;
}

std::vector<Table> window_tables(const WindowRows& rows, uint32_t process,
                                 const DefinitionReader& definitions, IdSet* given) {
  DefinitionTables used(&definitions, given);
  for (const SumRow& row : rows.windows) {
    switch (static_cast<SumKind>(row.kind)) {
      case SumKind::kSample:
        used.stack(row.id);
        break;
      case SumKind::kRange:
      case SumKind::kActivity:
      case SumKind::kCollective:
        used.name(row.id);
        break;
      case SumKind::kGc:
      case SumKind::kStep:
        break;
    }
  }
  for (const ThreadRow& row : rows.threads) used.name(row.name);
  std::vector<Table> tables = std::move(used).tables(process);
  add_threads(&tables, process, rows.threads);
  add_steps(&tables, process, rows.steps);
  add_table(&tables, "windows", process, rows.windows, as("start_ns", &SumRow::start_ns),
            as("kind", &SumRow::kind), as("state", &SumRow::state), as("id", &SumRow::id),
            as("count", &SumRow::count), as("total_ns", &SumRow::total_ns),
            as("min_ns", &SumRow::min_ns), as("max_ns", &SumRow::max_ns));
  add_table(&tables, "histograms", process, rows.histograms,
            as("start_ns", &HistogramRow::start_ns), as("kind", &HistogramRow::kind),
            as("id", &HistogramRow::id), as("bucket", &HistogramRow::bucket),
            as("count", &HistogramRow::count));
  return tables;
}

}  // namespace pilotlight
