// native/drain/reader.h: reads one segment into rows and sums.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "drain/definition_reader.h"
#include "drain/ring_reader.h"
#include "drain/rows.h"
#include "drain/segment_view.h"
#include "drain/sums.h"
#include "drain/tick_clock.h"

namespace pilotlight {

constexpr size_t kMaxOpenRanges = 512;

struct OpenRange {
  uint32_t name;
  uint8_t kind;  // SpanKind
  int64_t start_ns;
};

// What must be known of a ring's past to go on reading it.
struct RingProgress {
  uint64_t position = 0;
  uint32_t thread = 0;
  bool has_step = false;
  int64_t step = 0;
  int64_t step_start_ns = 0;
  std::vector<OpenRange> open;
  // Losses of the ring that already have a gap row.
  uint64_t known_full = 0;
  uint64_t known_nested = 0;
  uint64_t known_quarantined = 0;
};

// Losses of the process that already have a gap row.
struct KnownLosses {
  uint64_t no_ring = 0;
  uint64_t definitions = 0;
};

struct Rows {
  std::vector<SpanRow> spans;
  std::vector<SampleRow> samples;
  std::vector<CounterRow> counters;
  std::vector<MarkRow> marks;
  std::vector<GapRow> gaps;
  std::vector<StepRow> steps;
  std::vector<SamplerRow> sampler;
  std::vector<ThreadRow> threads;
  std::vector<ActivityRow> activities;
  std::vector<LaunchRow> launches;
  std::vector<CollectiveRow> collectives;
};

struct WindowRows {
  std::vector<SumRow> windows;
  std::vector<HistogramRow> histograms;
  std::vector<StepRow> steps;
  std::vector<ThreadRow> threads;
};

struct Losses {
  uint64_t dropped, no_ring, nested, definitions_lost, quarantined, unmatched, unknown;
};

// Time in one phase so far, as far as it has ended.
struct PhaseSum {
  uint32_t name;
  uint64_t total_ns;
};

// The last values of counters, as many as fit: for those who look on, all of them are in rows.
class LastValues {
 public:
  static constexpr uint32_t kSlots = 256;
  struct Entry {
    uint32_t name;  // 0: free
    double value;
  };
  void put(uint32_t name, double value) noexcept {
    for (uint32_t i = 0; i < kProbes; i++) {
      Entry& entry = entries_[(name + i) % kSlots];
      if (entry.name != name && entry.name != 0) continue;
      entry = {name, value};
      return;
    }
  }
  const std::array<Entry, kSlots>& entries() const noexcept { return entries_; }

 private:
  static constexpr uint32_t kProbes = 8;
  std::array<Entry, kSlots> entries_ = {};
};

struct Live {
  uint64_t read = 0;
  uint64_t steps = 0;
  int64_t step = -1;
  int64_t step_ns = 0;
  int64_t last_step_ns = 0;
  uint64_t state_ns[5] = {};
  SamplerRow sampler = {};
  PhaseSum phases[8] = {};
  LastValues counters;
};

class Reader {
 public:
  // Returns nullptr, or in one line why this is not a segment we can read.
  const char* open(int fd, uint64_t epoch);

  uint64_t read();
  double fill() const noexcept;
  // The process has ended: what it left open is closed. `has_exited`: of its own will.
  void finish(int64_t time_ns, bool has_exited = false);

  // Moves out the rows since the last take; what was read up to here is what commit() frees.
  Rows take();
  WindowRows take_windows(int64_t until_ns);
  // The next rows begin a new chunk, which needs the names of the threads again.
  void new_chunk();
  bool commit() noexcept;

  // Where the next agent has to go on: as of the last take.
  const std::array<RingProgress, kMaxRings>& taken() const noexcept { return taken_; }
  const KnownLosses& known_losses() const noexcept { return known_; }
  // False: it makes no sense, and the ring stays where its shared tail is.
  bool resume(uint32_t ring, const RingProgress& progress);
  void resume(const KnownLosses& known) noexcept { known_ = known; }

  Losses losses() const noexcept;
  const Live& live() const noexcept { return live_; }
  std::vector<OpenRange> open_ranges() const;
  std::string identity() const;
  std::string off_reason() const;
  const SegmentHeader& header() const noexcept { return view_.header(); }
  const DefinitionReader& definitions() const noexcept { return definitions_; }
  void release_pages() noexcept { view_.release_pages(); }

 private:
  uint64_t read_ring(uint32_t ring);
  void record(RingProgress& ring, const RecordHeader& header, const char* bytes);
  void rare_record(RingProgress& ring, const RecordHeader& header, const char* bytes);
  void end_range(RingProgress& ring, uint32_t name, uint8_t kind, int64_t now_ns);
  void end_lost_phase(RingProgress& ring, int64_t now_ns);
  void end_alone(RingProgress& ring, uint32_t name, int64_t now_ns);
  void close_range(RingProgress& ring, size_t place, int64_t now_ns, uint8_t flags);
  void close_newest(RingProgress& ring, int64_t now_ns, uint8_t flags);
  // The phase that the owner of a ring is in; name 0: none.
  OpenRange phase_under_way(uint32_t ring) const noexcept;
  void sum_rows();
  void add_phase(uint32_t name, int64_t duration_ns) noexcept;
  void begin_step(RingProgress& ring, int64_t step, int64_t now_ns);
  void activity(const RingProgress& ring, const RecordHeader& header, const char* bytes);
  void launch(const RingProgress& ring, const RecordHeader& header, const char* bytes);
  void collective(const RingProgress& ring, const RecordHeader& header, const char* bytes);
  int64_t length_ns(uint64_t start_ticks, uint64_t ticks) const noexcept;
  void describe_thread(uint32_t thread, uint32_t name, int64_t time_ns);
  void process_mark(const RingProgress& ring, const RecordHeader& header, const char* bytes);
  void residual_gaps();
  void residual_gap(uint32_t ring, GapReason reason, uint64_t total, uint64_t* known);
  int64_t to_ns(uint64_t ticks) const noexcept { return clock_->to_ns(ticks); }

  // Calls f(ring) for the rings that ever had records; most processes use two or three of them.
  template <typename F>
  void for_used(F&& f) const {
    for (uint64_t rest = used_; rest != 0; rest &= rest - 1) {
      f(static_cast<uint32_t>(__builtin_ctzll(rest)));
    }
  }

  SegmentView view_;
  DefinitionReader definitions_;
  uint64_t epoch_ = 0;
  TickClock stated_{ClockKind::kMonotonic};
  TickClock* clock_ = nullptr;

  std::array<RingReader, kMaxRings> rings_;
  std::array<RingProgress, kMaxRings> progress_;
  std::array<RingProgress, kMaxRings> taken_;
  uint64_t used_ = 0;  // a bit a ring
  std::vector<char> scratch_;
  Rows rows_;
  // How many of these rows the sums have.
  struct Summed {
    size_t spans = 0, samples = 0, activities = 0;
  } summed_;
  std::vector<StepRow> window_steps_;
  std::vector<ThreadRow> window_threads_;
  Sums sums_;
  Live live_;
  struct ThreadName {
    uint32_t name;
    int64_t time_ns;
  };
  std::unordered_map<uint32_t, ThreadName> thread_names_;
  bool exited_ = false;
  bool finished_ = false;
  uint64_t unmatched_ = 0;
  uint64_t unknown_ = 0;
  KnownLosses known_;
};

}  // namespace pilotlight
