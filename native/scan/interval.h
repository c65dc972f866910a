// native/scan/interval.h: sets of time as columns of begins and ends, sorted and disjoint.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pilotlight::scan {

struct Intervals {
  const int64_t* start;
  const int64_t* end;
  size_t count;
};

// What these intervals cover, joined where they touch; there is room for all of them. Empty ones
// count for nothing. -1 if the others are not sorted by their begins.
ptrdiff_t join(Intervals from, int64_t* start, int64_t* end);

// Where the set of both has the wanted members: bit 1 of `wanted` for times in the first alone, 2
// in the second alone, 3 in both. There is room for as many as both have. Returns how many.
size_t combine(Intervals first, Intervals second, unsigned wanted, int64_t* start, int64_t* end);

// How much of the set lies before each of the times. `before` has room for one more than the set.
void covered(Intervals set, int64_t* before, const int64_t* times, size_t count, int64_t* found);

}  // namespace pilotlight::scan
