// native/drain/parts.h: where the time of steps went.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace pilotlight {

constexpr unsigned kMostCategories = 16;

struct Intervals {
  std::vector<int64_t> start_ns;
  std::vector<int64_t> duration_ns;  // as many
};

// A row of `categories` sums for each step. Time that several intervals cover goes to the lowest
// category; an interval that makes no sense counts as empty. Steps may overlap.
std::vector<int64_t> step_parts(const Intervals& intervals, const uint8_t* category,
                                const Intervals& steps, unsigned categories);

}  // namespace pilotlight
