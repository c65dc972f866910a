// native/scan/json.h: JSON as it lies in memory, read forwards without building anything.
//
// Accepts what Python's json does (strict=False): the grammar, NaN and the infinities, and any
// character within strings. Bytes that are no UTF-8 are accepted in strings.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace pilotlight::scan {

enum class Outcome : uint8_t {
  kDone,
  kEnd,  // the bytes end before the value does
  kBad,  // no JSON
  kDeep,
};

enum class ValueKind : uint8_t { kNone, kString, kNumber, kLiteral, kList, kObject };

// A value in place: strings without their quotes, all else as written.
struct Value {
  const char* begin = nullptr;
  uint32_t length = 0;
  ValueKind kind = ValueKind::kNone;
  bool escaped = false;
  std::string_view raw() const { return {begin, length}; }
};

// Reads up to kPadding bytes beyond `end`, which have to be there; what they are does not matter.
struct Cursor {
  const char* at;
  const char* end;
};
constexpr size_t kPadding = 16;
constexpr int kMostDepth = 200;

inline void skip_space(Cursor* c) {
  while (c->at < c->end && (*c->at == ' ' || *c->at == '\n' || *c->at == '\r' || *c->at == '\t')) {
    c->at++;
  }
}

// At a quote. The value is what lies between the quotes.
Outcome read_string(Cursor* c, Value* value);

// Any value, checked to its last character.
Outcome read_value(Cursor* c, Value* value);

// Past a list or object however wrong it is inside, by its brackets and strings alone.
Outcome skip_brackets(Cursor* c);

// The characters that a string stands for, in UTF-8.
void unescape(std::string_view raw, std::string* out);

// A key and all up to its value.
inline Outcome read_key(Cursor* c, Value* key) {
  if (*c->at != '"') return Outcome::kBad;
  Outcome outcome = read_string(c, key);
  if (outcome != Outcome::kDone) return outcome;
  skip_space(c);
  if (c->at >= c->end) return Outcome::kEnd;
  if (*c->at != ':') return Outcome::kBad;
  c->at++;
  skip_space(c);
  return c->at >= c->end ? Outcome::kEnd : Outcome::kDone;
}

// Calls `each(key, value)` for the members of an object; stops with what is not kDone. The cursor
// is at the brace and will be behind the one that closes it.
template <typename Each>
Outcome read_members(Cursor* c, Each&& each) {
  c->at++;
  skip_space(c);
  if (c->at >= c->end) return Outcome::kEnd;
  if (*c->at == '}') {
    c->at++;
    return Outcome::kDone;
  }
  for (;;) {
    Value key;
    Outcome outcome = read_key(c, &key);
    if (outcome != Outcome::kDone) return outcome;
    outcome = each(key, c);
    if (outcome != Outcome::kDone) return outcome;
    skip_space(c);
    if (c->at >= c->end) return Outcome::kEnd;
    char mark = *c->at++;
    if (mark == '}') return Outcome::kDone;
    if (mark != ',') return Outcome::kBad;
    skip_space(c);
    if (c->at >= c->end) return Outcome::kEnd;
  }
}

}  // namespace pilotlight::scan
