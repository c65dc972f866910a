// native/tests/drain_exercise.h: does with a segment all that an agent does, and checks what comes
// out: whatever the bytes are, rows have to be rows.
#pragma once

#include "drain/reader.h"
#include "drain/tables.h"
#include "ring_check.h"

namespace pilotlight {

class Exercise {
 public:
  // False: refused.
  bool open(int fd) { return reader_.open(fd, 1) == nullptr; }

  void read() {
    uint64_t count = reader_.read();
    CHECK(count <= uint64_t{kMaxRings} * reader_.header().ring_bytes / kRecordAlign);
    double fill = reader_.fill();
    CHECK(fill >= 0 && fill <= 1);
  }

  void take() {
    Rows rows = reader_.take();
    for (const SpanRow& span : rows.spans) CHECK(span.duration_ns >= 0);
    for (const StepRow& step : rows.steps) CHECK(step.duration_ns >= 0);
    for (const SampleRow& sample : rows.samples) CHECK(sample.state <= 4 && sample.weight_ns >= 0);
    check_tables(detail_tables(rows, 0, reader_.definitions(), &detail_given_));
    // False where the bytes say that another agent has taken over.
    (void)reader_.commit();
  }

  void take_windows(int64_t until_ns) {
    WindowRows rows = reader_.take_windows(until_ns);
    for (const SumRow& sum : rows.windows) {
      CHECK(sum.count > 0 && sum.min_ns <= sum.max_ns && sum.total_ns >= 0);
    }
    check_tables(window_tables(rows, 0, reader_.definitions(), &window_given_));
  }

  void ask() {
    Losses losses = reader_.losses();
    CHECK(losses.quarantined <= kMaxRings);
    CHECK(reader_.identity().size() <= kIdentityBytes);
    CHECK(reader_.off_reason().size() <= kReasonBytes);
    (void)reader_.open_ranges();
    (void)reader_.live();
  }

  // Another agent goes on with what this one, or a damaged journal, says.
  void hand_over(int fd, uint64_t nonsense) {
    Exercise next;
    if (!next.open(fd)) return;
    for (uint32_t i = 0; i < kMaxRings; i++) {
      RingProgress progress = reader_.taken()[i];
      if (nonsense >> (i % 64) & 1) progress.position += nonsense;
      next.reader_.resume(i, progress);
    }
    next.read();
    next.take();
  }

  void finish(int64_t time_ns) {
    reader_.finish(time_ns);
    take();
    take_windows(INT64_MAX);
  }

 private:
  static void check_tables(const std::vector<Table>& tables) {
    for (const Table& table : tables) {
      CHECK(table.rows > 0);
      for (const Column& column : table.columns) {
        bool text = &column != &table.columns.back() &&
                    std::string(column.name) + ":offsets" == (&column + 1)->name;
        if (text) {
          CHECK(valid_utf8(std::string(column.bytes())) == column.bytes());
          continue;
        }
        bool offsets = std::strstr(column.name, ":offsets") != nullptr;
        CHECK(column.bytes().size() % (table.rows + offsets) == 0);
      }
    }
  }

  Reader reader_;
  IdSet detail_given_;
  IdSet window_given_;
};

}  // namespace pilotlight
