// native/scan/number.h: numbers of a trace as written, without passing through a double.
#pragma once

#include <cstdint>

#include "scan/json.h"

namespace pilotlight::scan {

enum class Unit : uint8_t { kMicroseconds, kNanoseconds };

// What a time beyond every clock, or one that is no finite number, is read as.
constexpr int64_t kImpossible = INT64_MIN;

// A number, or a string that holds one. False if it is neither.
[[nodiscard]] bool read_time(const Value& value, Unit unit, int64_t* time_ns);

// Whether this can only be a count of nanoseconds: as microseconds it would be far in the future.
bool is_nanoseconds(const Value& value);

// False unless it is an integer from 0 to 2^63 - 1, or a string that holds one.
[[nodiscard]] bool read_integer(const Value& value, int64_t* integer);

// False unless it is a finite number.
[[nodiscard]] bool read_real(const Value& value, double* real);

}  // namespace pilotlight::scan
