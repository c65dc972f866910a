// native/drain/launched.h: device time by what launched it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pilotlight {

// Columns of activities; all have `count` rows.
struct Activities {
  const uint32_t* stack;
  const uint32_t* range;
  const uint32_t* name;
  const uint8_t* kind;
  const int64_t* start_ns;
  const int64_t* duration_ns;
  size_t count;
};

constexpr size_t kLaunchedColumns = 8;

// Rows of begin of the window (of `window_ns`, by the activity's end), stack, range, name, kind,
// count, total and longest ns; in no order. Beyond `most` rows, what is new is left out and counted
// in `left_out_ns`.
std::vector<int64_t> launched_sums(const Activities& activities, int64_t window_ns, size_t most,
                                   int64_t* left_out_ns);

}  // namespace pilotlight
