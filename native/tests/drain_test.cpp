// native/tests/drain_test.cpp: the arithmetic of the drain: ticks, windows and their histograms.
#include <random>

#include "drain/sums.h"
#include "drain/tick_clock.h"
#include "ring_check.h"

namespace pilotlight {
namespace {

// docs/recording.md, by shifts.
uint32_t bucket_by_shifts(uint64_t ns) {
  if (ns < 8) return static_cast<uint32_t>(ns);
  uint32_t exponent = 0;
  while (ns >> (exponent + 1) != 0) exponent++;
  return 8 * (exponent - 2) + static_cast<uint32_t>((ns >> (exponent - 3)) & 7);
}

void a_duration_falls_into_the_bucket_of_its_octave_and_eighth() {
  std::mt19937_64 random(1);
  for (int64_t ns = 0; ns < 4096; ns++) CHECK_EQUAL(histogram_bucket(ns), bucket_by_shifts(ns));
  // Exact as long as a double is: 104 days.
  for (int bits = 12; bits <= 53; bits++) {
    int64_t power = int64_t{1} << bits;
    CHECK_EQUAL(histogram_bucket(power - 1), bucket_by_shifts(power - 1));
    for (int i = 0; i < 1000; i++) {
      int64_t ns = static_cast<int64_t>(random() % power);
      CHECK_EQUAL(histogram_bucket(ns), bucket_by_shifts(ns));
    }
  }
  CHECK(histogram_bucket(INT64_MAX) < 496);
}

void ticks_of_now_and_of_long_ago_lie_on_the_same_clock() {
  for (ClockKind kind : {ClockKind::kMonotonic, trusted_clock()}) {
    TickClock& clock = machine_clock(kind);
    clock.refresh();
    ClockPair pair = read_clocks(kind);
    timespec pause = {0, 50000000};
    nanosleep(&pause, nullptr);
    ClockPair later = read_clocks(kind);
    uint64_t second = (later.ticks - pair.ticks) * 1000000000 /
                      static_cast<uint64_t>(later.monotonic_ns - pair.monotonic_ns);
    int64_t since_boot = pair.monotonic_ns / 1000000000;
    for (int64_t seconds : {-3600, -60, -5, -2, -1, 0, 1, 2, 3, 5, 60}) {
      if (-seconds > since_boot) continue;  // no record is older than its machine's clock
      uint64_t ticks = pair.ticks + static_cast<uint64_t>(seconds) * second;
      int64_t off = clock.to_ns(ticks) - (pair.monotonic_ns + seconds * 1000000000);
      // A thousandth of the distance: the clock's rate was measured over 20 ms.
      int64_t allowed = 100000 + 1000000 * (seconds < 0 ? -seconds : seconds);
      CHECK(off <= allowed && -off <= allowed);
    }
    // No step back where the near line ends.
    int64_t last = clock.to_ns(pair.ticks - 20 * second);
    for (uint64_t i = 1; i < 40000; i++) {
      int64_t next = clock.to_ns(pair.ticks - 20 * second + i * (second / 1000));
      CHECK(next > last);
      last = next;
    }
  }
}

void sums_of_more_names_than_a_window_begins_with_are_all_there() {
  Sums sums;
  constexpr uint32_t kNames = 5000;
  for (int turn = 0; turn < 2; turn++) {
    for (uint32_t name = 1; name <= kNames; name++) sums.add(SumKind::kRange, 0, name, 100, name);
    std::vector<SumRow> rows;
    std::vector<HistogramRow> histograms;
    sums.take(kWindowNs, &rows, &histograms);
    CHECK_EQUAL(rows.size(), kNames);
    uint64_t total = 0;
    for (const SumRow& row : rows) {
      CHECK_EQUAL(row.total_ns, row.id);
      CHECK_EQUAL(row.count, 1);
      total += row.id;
    }
    CHECK_EQUAL(total, uint64_t{kNames} * (kNames + 1) / 2);
  }
}

}  // namespace
}  // namespace pilotlight

int main(int argc, char** argv) {
  using namespace pilotlight;
  return run_tests({TEST(a_duration_falls_into_the_bucket_of_its_octave_and_eighth),
                    TEST(ticks_of_now_and_of_long_ago_lie_on_the_same_clock),
                    TEST(sums_of_more_names_than_a_window_begins_with_are_all_there)},
                   argc, argv);
}
