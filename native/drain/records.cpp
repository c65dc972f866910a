// native/drain/records.cpp: what a record of each type means: rows, sums, and what is known live.
#include <algorithm>

#include "drain/reader.h"

namespace pilotlight {
namespace {

constexpr size_t kMaxThreadNames = 16384;
constexpr int64_t kMaxWeightNs = 3600000000000;

// The record as T, if it is long enough to be one; newer producers may append fields.
template <typename T>
bool as(const RecordHeader& header, const char* bytes, T* out) noexcept {
  if (header.size < sizeof(T)) return false;
  std::memcpy(out, bytes, sizeof(T));
  return true;
}

// Kinds of a newer producer are ranges.
uint8_t span_kind(uint8_t flags) noexcept {
  bool known = flags >= static_cast<uint8_t>(SpanKind::kPhase) &&
               flags <= static_cast<uint8_t>(SpanKind::kSync);
  return known ? flags : static_cast<uint8_t>(SpanKind::kRange);
}

// Phases interrupt one another also inside ranges that go on; they are not nested with them.
bool is_phase(uint8_t kind) noexcept { return kind == static_cast<uint8_t>(SpanKind::kPhase); }

uint8_t activity_kind(uint32_t kind) noexcept {
  return kind <= static_cast<uint8_t>(ActivityKind::kExternalId) ? static_cast<uint8_t>(kind) : 0;
}

}  // namespace

inline void Reader::close_newest(RingProgress& ring, int64_t now_ns, uint8_t flags) {
  const OpenRange& range = ring.open.back();
  int64_t duration = std::max<int64_t>(now_ns - range.start_ns, 0);
  rows_.spans.emplace_back() = {ring.thread, range.name, range.start_ns,
                                duration,    range.kind, flags};
  ring.open.pop_back();
}

// A thread is in one phase at a time: of one that is still open the end was dropped.
inline void Reader::end_lost_phase(RingProgress& ring, int64_t now_ns) {
  for (size_t depth = ring.open.size(); depth > 0; depth--) {
    if (!is_phase(ring.open[depth - 1].kind)) continue;
    close_range(ring, depth - 1, now_ns, kSpanNeverClosed);
  }
}

// Rows are written where they stay: one that is put together elsewhere and then copied in wider
// words waits for its own stores.
inline void Reader::record(RingProgress& ring, const RecordHeader& header, const char* bytes) {
  int64_t now = to_ns(header.ticks);
  switch (static_cast<RecordType>(header.type)) {
    case RecordType::kBegin:
      if (is_phase(header.flags)) end_lost_phase(ring, now);
      if (ring.open.size() < kMaxOpenRanges) {
        ring.open.emplace_back() = {header.id, span_kind(header.flags), now};
      } else {
        unmatched_++;
      }
      return;
    case RecordType::kEnd:
      // Nearly always the newest one.
      if (!ring.open.empty() && ring.open.back().name == header.id &&
          is_phase(ring.open.back().kind) == is_phase(header.flags)) {
        return close_newest(ring, now, 0);
      }
      if ((header.flags & kEndAlone) != 0) return end_alone(ring, header.id, now);
      return end_range(ring, header.id, span_kind(header.flags), now);
    case RecordType::kSample: {
      Sample sample;
      if (!as(header, bytes, &sample)) break;
      int64_t weight = static_cast<int64_t>(std::min<uint64_t>(sample.weight_ns, kMaxWeightNs));
      uint8_t state = sample.state <= static_cast<uint8_t>(ThreadState::kDisk) ? sample.state : 0;
      rows_.samples.emplace_back() = {sample.tid, header.id, now, weight, state, sample.flags};
      return;
    }
    case RecordType::kCounter: {
      Counter counter;
      if (!as(header, bytes, &counter)) break;
      rows_.counters.emplace_back() = {ring.thread, header.id, now, counter.value};
      live_.counters.put(header.id, counter.value);
      return;
    }
    case RecordType::kActivity:
      return activity(ring, header, bytes);
    case RecordType::kLaunch:
      return launch(ring, header, bytes);
    default:
      return rare_record(ring, header, bytes);
  }
  unknown_++;
}

uint64_t Reader::read_ring(uint32_t index) {
  RingProgress& ring = progress_[index];
  return rings_[index].read(scratch_, [&](const RecordHeader& header, const char* bytes) {
    record(ring, header, bytes);
  });
}

void Reader::rare_record(RingProgress& ring, const RecordHeader& header, const char* bytes) {
  int64_t now = to_ns(header.ticks);
  switch (static_cast<RecordType>(header.type)) {
    case RecordType::kStep: {
      Value value;
      if (!as(header, bytes, &value)) break;
      return begin_step(ring, value.value, now);
    }
    case RecordType::kMark: {
      Value value;
      if (!as(header, bytes, &value)) break;
      rows_.marks.push_back({ring.thread, header.id, now, value.value, kMarkMark});
      return;
    }
    case RecordType::kEvent: {
      Event event;
      if (!as(header, bytes, &event)) break;
      rows_.marks.push_back(
          {ring.thread, header.id, now, static_cast<int64_t>(event.words[0]), kMarkEvent});
      return;
    }
    case RecordType::kGc: {
      Gc gc;
      if (!as(header, bytes, &gc)) break;
      int64_t start = std::min(to_ns(gc.start_ticks), now);
      rows_.spans.push_back(
          {ring.thread, 0, start, now - start, static_cast<uint8_t>(SpanKind::kGc), 0});
      sums_.add(SumKind::kGc, 0, gc.generation, now, now - start);
      return;
    }
    case RecordType::kThread: {
      Thread thread;
      if (!as(header, bytes, &thread)) break;
      // Flag 1: the sampler describes another thread than the ring's own.
      if ((header.flags & 1) == 0) {
        while (!ring.open.empty()) close_range(ring, ring.open.size() - 1, now, kSpanNeverClosed);
        ring.has_step = false;
        ring.thread = thread.tid;
      }
      return describe_thread(thread.tid, header.id, now);
    }
    case RecordType::kGap: {
      Gap gap;
      if (!as(header, bytes, &gap)) break;
      ring.known_full += gap.count;
      auto index = static_cast<uint32_t>(&ring - progress_.data());
      rows_.gaps.push_back(
          {index, kGapFull, to_ns(gap.first_ticks), to_ns(gap.last_ticks), gap.count});
      return;
    }
    case RecordType::kCollective:
      return collective(ring, header, bytes);
    case RecordType::kProcess:
      return process_mark(ring, header, bytes);
    case RecordType::kSampler: {
      SamplerStats stats;
      if (!as(header, bytes, &stats)) break;
      live_.sampler = {now,
                       stats.passes,
                       stats.taken,
                       stats.torn,
                       stats.skipped,
                       static_cast<int64_t>(stats.cpu_ns),
                       static_cast<int64_t>(stats.period_ns)};
      rows_.sampler.push_back(live_.sampler);
      return;
    }
    default:
      break;
  }
  unknown_++;
}

void Reader::end_range(RingProgress& ring, uint32_t name, uint8_t kind, int64_t now_ns) {
  auto is_it = [&](const OpenRange& range) {
    return range.name == name && is_phase(range.kind) == is_phase(kind);
  };
  size_t depth = ring.open.size();
  while (depth > 0 && !is_it(ring.open[depth - 1])) depth--;
  if (depth == 0) {
    unmatched_++;
    return;
  }
  if (!is_phase(kind)) {
    // Ranges inside whose end was lost end with it.
    for (size_t i = ring.open.size(); i > depth; i--) {
      if (is_phase(ring.open[i - 1].kind)) continue;
      close_range(ring, i - 1, now_ns, kSpanNeverClosed);
    }
  }
  close_range(ring, depth - 1, now_ns, 0);
}

void Reader::end_alone(RingProgress& ring, uint32_t name, int64_t now_ns) {
  for (size_t depth = ring.open.size(); depth > 0; depth--) {
    if (ring.open[depth - 1].name == name) return close_range(ring, depth - 1, now_ns, 0);
  }
  unmatched_++;
}

void Reader::close_range(RingProgress& ring, size_t place, int64_t now_ns, uint8_t flags) {
  auto at = ring.open.begin() + static_cast<std::ptrdiff_t>(place);
  std::rotate(at, at + 1, ring.open.end());
  close_newest(ring, now_ns, flags);
}

// For `watch` only, which shows the few that adapters tell; all of them are in windows and spans.
void Reader::add_phase(uint32_t name, int64_t duration_ns) noexcept {
  for (PhaseSum& phase : live_.phases) {
    if (phase.total_ns != 0 && phase.name != name) continue;
    phase.name = name;
    phase.total_ns += static_cast<uint64_t>(duration_ns);
    return;
  }
}

// Table by table, in tight loops: the sums of one row need not wait for those of the row before.
void Reader::sum_rows() {
  for (size_t i = summed_.spans; i < rows_.spans.size(); i++) {
    const SpanRow& row = rows_.spans[i];
    if (row.kind == static_cast<uint8_t>(SpanKind::kGc)) continue;  // summed by generation
    // Plain ranges have state 0, as they always had.
    uint8_t state = row.kind == static_cast<uint8_t>(SpanKind::kRange) ? 0 : row.kind;
    sums_.add(SumKind::kRange, state, row.name, row.start_ns + row.duration_ns, row.duration_ns);
    if (is_phase(row.kind)) add_phase(row.name, row.duration_ns);
  }
  for (size_t i = summed_.samples; i < rows_.samples.size(); i++) {
    const SampleRow& row = rows_.samples[i];
    sums_.add(SumKind::kSample, row.state, row.stack, row.time_ns, row.weight_ns);
    live_.state_ns[row.state] += static_cast<uint64_t>(row.weight_ns);
  }
  for (size_t i = summed_.activities; i < rows_.activities.size(); i++) {
    const ActivityRow& row = rows_.activities[i];
    if (row.kind >= static_cast<uint8_t>(ActivityKind::kPcSamples)) continue;  // took no time
    sums_.add(SumKind::kActivity, row.kind, row.name, row.start_ns + row.duration_ns,
              row.duration_ns);
  }
  summed_ = {rows_.spans.size(), rows_.samples.size(), rows_.activities.size()};
}

void Reader::begin_step(RingProgress& ring, int64_t step, int64_t now_ns) {
  if (ring.has_step) {
    int64_t duration = std::max<int64_t>(now_ns - ring.step_start_ns, 0);
    StepRow row = {ring.thread, ring.step, ring.step_start_ns, duration};
    rows_.steps.push_back(row);
    window_steps_.push_back(row);
    sums_.add(SumKind::kStep, 0, 0, now_ns, duration);
    live_.steps++;
    live_.step_ns = duration;
  }
  ring.has_step = true;
  ring.step = step;
  ring.step_start_ns = now_ns;
  live_.step = step;
  live_.last_step_ns = now_ns;
}

// A length that a producer states: never negative, at most an hour.
int64_t Reader::length_ns(uint64_t start_ticks, uint64_t ticks) const noexcept {
  uint64_t end = start_ticks + ticks;
  if (end < start_ticks) return 0;
  return std::clamp<int64_t>(to_ns(end) - to_ns(start_ticks), 0, kMaxWeightNs);
}

void Reader::activity(const RingProgress& ring, const RecordHeader& header, const char* bytes) {
  Activity activity;
  if (!as(header, bytes, &activity)) {
    unknown_++;
    return;
  }
  int64_t start = to_ns(header.ticks);
  int64_t duration = length_ns(header.ticks, activity.duration_ticks);
  uint8_t kind = activity_kind(activity.kind);
  rows_.activities.emplace_back() = {
      ring.thread,    header.id,      activity.track, kind,
      header.flags,   start,          duration,       activity.correlation,
      activity.bytes, activity.stack, activity.range, activity.detail};
}

void Reader::launch(const RingProgress& ring, const RecordHeader& header, const char* bytes) {
  Launch launch;
  if (!as(header, bytes, &launch)) {
    unknown_++;
    return;
  }
  rows_.launches.emplace_back() = {
      ring.thread,        header.id,           activity_kind(launch.kind),
      header.flags,       to_ns(header.ticks), length_ns(header.ticks, launch.duration_ticks),
      launch.correlation, launch.stack};
}

void Reader::collective(const RingProgress& ring, const RecordHeader& header, const char* bytes) {
  Collective collective;
  if (!as(header, bytes, &collective)) {
    unknown_++;
    return;
  }
  int64_t start = to_ns(header.ticks);
  int64_t duration = length_ns(header.ticks, collective.duration_ticks);
  int64_t wait = std::min(length_ns(header.ticks, collective.wait_ticks), duration);
  rows_.collectives.push_back({ring.thread, header.id, collective.group, collective.dtype,
                               collective.rank, collective.world_size, header.flags, start,
                               duration, wait, collective.bytes, collective.sequence,
                               collective.correlation});
  sums_.add(SumKind::kCollective, 0, header.id, start + duration, duration);
}

void Reader::describe_thread(uint32_t thread, uint32_t name, int64_t time_ns) {
  auto known = thread_names_.find(thread);
  // Rings are read one after the other, so an older name may come after a newer one.
  if (known != thread_names_.end()) {
    if (time_ns < known->second.time_ns) return;
    known->second.time_ns = time_ns;
    if (known->second.name == name) return;
  }
  // A process that keeps making threads: forget the names, they are only repeated then.
  if (thread_names_.size() >= kMaxThreadNames) thread_names_.clear();
  thread_names_[thread] = {name, time_ns};
  rows_.threads.push_back({thread, name});
  window_threads_.push_back({thread, name});
}

void Reader::process_mark(const RingProgress& ring, const RecordHeader& header, const char* bytes) {
  Process process;
  if (!as(header, bytes, &process) || process.mark < 1 ||
      process.mark > static_cast<uint32_t>(ProcessMark::kResumed)) {
    unknown_++;
    return;
  }
  auto mark = static_cast<ProcessMark>(process.mark);
  if (mark == ProcessMark::kExit) exited_ = true;
  // ProcessMark counts from 1 as MarkKind does from kMarkStarted.
  uint8_t kind = static_cast<uint8_t>(kMarkStarted + process.mark - 1);
  rows_.marks.push_back({ring.thread, header.id, to_ns(header.ticks), process.value, kind});
}

}  // namespace pilotlight
