// native/scan/number.cpp
#include "scan/number.h"

#include <cmath>
#include <cstdlib>
#include <string>

namespace pilotlight::scan {
namespace {

// Times are below 2^63 ns whatever the unit; this many microseconds are 285 years.
constexpr int64_t kMostMicroseconds = 9'000'000'000'000'000;

bool is_digit(char c) { return c >= '0' && c <= '9'; }

// The number itself, or the one in a string.
bool number_in(const Value& value, std::string_view* text) {
  if (value.kind == ValueKind::kNumber) {
    *text = value.raw();
    return true;
  }
  if (value.kind != ValueKind::kString || value.escaped || value.length == 0) return false;
  if (value.length > 400) return false;
  char first = *value.begin;
  if (!is_digit(first) && first != '-') return false;
  // The quote behind it ends the number.
  Cursor c{value.begin, value.begin + value.length + 1};
  Value inner;
  if (read_value(&c, &inner) != Outcome::kDone || inner.length != value.length) return false;
  *text = value.raw();
  return true;
}

double as_double(std::string_view text) { return std::strtod(std::string(text).c_str(), nullptr); }

int64_t from_double(double value, Unit unit) {
  double most = static_cast<double>(kMostMicroseconds) * (unit == Unit::kNanoseconds ? 1000 : 1);
  if (!std::isfinite(value) || std::fabs(value) >= most) return kImpossible;
  if (unit == Unit::kNanoseconds) return std::llround(value);
  double whole = std::floor(value);
  return static_cast<int64_t>(whole) * 1000 + std::llround((value - whole) * 1000);
}

}  // namespace

bool read_time(const Value& value, Unit unit, int64_t* time_ns) {
  std::string_view text;
  if (!number_in(value, &text)) return false;
  const char* p = text.data();
  const char* end = p + text.size();
  bool negative = *p == '-';
  if (negative) p++;
  int64_t whole = 0;
  int count = 0;
  for (; p < end && is_digit(*p); p++, count++) {
    if (count < 18) whole = whole * 10 + (*p - '0');
  }
  int64_t thousandths = 0;
  int fraction_digits = 0;
  bool round_up = false;
  if (p < end && *p == '.') {
    for (p++; p < end && is_digit(*p); p++, fraction_digits++) {
      if (fraction_digits < 3) thousandths = thousandths * 10 + (*p - '0');
      if (fraction_digits == (unit == Unit::kMicroseconds ? 3 : 0)) round_up = *p >= '5';
    }
  }
  // An exponent, NaN, Infinity, or more digits than a clock has.
  bool is_nanoseconds = unit == Unit::kNanoseconds;
  if (p < end || count > 18 || count == 0) {
    if (is_nanoseconds && p == end && count == 19) {
      *time_ns = std::strtoll(std::string(text).c_str(), nullptr, 10);
      if (*time_ns == INT64_MAX) *time_ns = kImpossible;
      return true;
    }
    *time_ns = from_double(as_double(text), unit);
    return true;
  }
  if (!is_nanoseconds && whole >= kMostMicroseconds) {
    *time_ns = kImpossible;
    return true;
  }
  for (int i = fraction_digits; i < 3; i++) thousandths *= 10;
  int64_t found = (is_nanoseconds ? whole : whole * 1000 + thousandths) + round_up;
  *time_ns = negative ? -found : found;
  return true;
}

bool is_nanoseconds(const Value& value) {
  std::string_view text;
  if (!number_in(value, &text) || text.size() < 18 || text.size() > 19) return false;
  for (char c : text) {
    if (!is_digit(c)) return false;
  }
  return text.size() == 18 || text[0] <= '4';
}

bool read_integer(const Value& value, int64_t* integer) {
  std::string_view text;
  if (!number_in(value, &text) || text.size() > 19) return false;
  uint64_t found = 0;
  for (char c : text) {
    if (!is_digit(c)) return false;
    found = found * 10 + static_cast<uint64_t>(c - '0');
  }
  if (found > INT64_MAX) return false;
  *integer = static_cast<int64_t>(found);
  return true;
}

bool read_real(const Value& value, double* real) {
  if (value.kind != ValueKind::kNumber) return false;
  *real = as_double(value.raw());
  return std::isfinite(*real);
}

}  // namespace pilotlight::scan
