// native/scan/json.cpp
#include "scan/json.h"

#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
#endif

#include "scan/utf8.h"

namespace pilotlight::scan {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool is_hex(char c) { return is_digit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// A bit, or a byte, of the answer for each byte that is a quote or a backslash; nothing is right
// above the lowest that is set.
#ifdef __SSE2__
using Word = __m128i;
constexpr int kBitsOfByte = 1;

unsigned specials(Word word) {
  Word quotes = _mm_cmpeq_epi8(word, _mm_set1_epi8('"'));
  Word backslashes = _mm_cmpeq_epi8(word, _mm_set1_epi8('\\'));
  return static_cast<unsigned>(_mm_movemask_epi8(_mm_or_si128(quotes, backslashes)));
}
#else
using Word = uint64_t;
constexpr int kBitsOfByte = 8;

uint64_t specials(Word word) {
  constexpr uint64_t kOnes = 0x0101010101010101u, kHighs = 0x8080808080808080u;
  auto zeros = [](uint64_t bytes) { return (bytes - kOnes) & ~bytes & kHighs; };
  return zeros(word ^ kOnes * '"') | zeros(word ^ kOnes * '\\');
}
#endif
static_assert(sizeof(Word) <= kPadding);

// The first quote or backslash; looks at whole words, and so beyond `end`.
const char* special(const char* at, const char* end) {
  while (at < end) {
    Word word;
    std::memcpy(&word, at, sizeof(word));
    auto found = specials(word);
    if (found != 0) {
      at += __builtin_ctzll(found) / kBitsOfByte;
      break;
    }
    at += sizeof(word);
  }
  return at < end ? at : end;
}

Outcome read_number(Cursor* c) {
  const char* p = c->at;
  const char* end = c->end;
  auto digits = [&] {
    const char* first = p;
    while (p < end && is_digit(*p)) p++;
    return p > first;
  };
  if (*p == '-') p++;
  if (p == end) return Outcome::kEnd;
  if (*p == '0') {
    p++;
  } else if (!digits()) {
    return Outcome::kBad;
  }
  if (p < end && *p == '.') {
    p++;
    if (!digits()) return p == end ? Outcome::kEnd : Outcome::kBad;
  }
  if (p < end && (*p == 'e' || *p == 'E')) {
    p++;
    if (p < end && (*p == '+' || *p == '-')) p++;
    if (!digits()) return p == end ? Outcome::kEnd : Outcome::kBad;
  }
  // Whether more digits follow is not known yet.
  if (p == end) return Outcome::kEnd;
  c->at = p;
  return Outcome::kDone;
}

Outcome read_word(Cursor* c, std::string_view word) {
  size_t there = static_cast<size_t>(c->end - c->at);
  if (there < word.size()) {
    return std::memcmp(c->at, word.data(), there) == 0 ? Outcome::kEnd : Outcome::kBad;
  }
  if (std::memcmp(c->at, word.data(), word.size()) != 0) return Outcome::kBad;
  c->at += word.size();
  return Outcome::kDone;
}

Outcome read_scalar(Cursor* c, Value* value) {
  value->begin = c->at;
  value->escaped = false;
  Outcome outcome;
  switch (*c->at) {
    case 't':
      outcome = read_word(c, "true");
      value->kind = ValueKind::kLiteral;
      break;
    case 'f':
      outcome = read_word(c, "false");
      value->kind = ValueKind::kLiteral;
      break;
    case 'n':
      outcome = read_word(c, "null");
      value->kind = ValueKind::kLiteral;
      break;
    case 'N':
      outcome = read_word(c, "NaN");
      value->kind = ValueKind::kNumber;
      break;
    case 'I':
      outcome = read_word(c, "Infinity");
      value->kind = ValueKind::kNumber;
      break;
    default:
      value->kind = ValueKind::kNumber;
      outcome = *c->at == '-' && c->at + 1 < c->end && c->at[1] == 'I' ? read_word(c, "-Infinity")
                                                                       : read_number(c);
  }
  value->length = static_cast<uint32_t>(c->at - value->begin);
  return outcome;
}

// A list or object with all that is in it. `depth` brackets are open around it.
Outcome read_nested(Cursor* c, int depth) {
  if (depth >= kMostDepth) return Outcome::kDeep;
  auto element = [depth](Cursor* inner) {
    if (*inner->at == '{' || *inner->at == '[') return read_nested(inner, depth + 1);
    Value unused;
    return *inner->at == '"' ? read_string(inner, &unused) : read_scalar(inner, &unused);
  };
  if (*c->at == '{') {
    return read_members(c, [&](const Value&, Cursor* inner) { return element(inner); });
  }
  c->at++;
  skip_space(c);
  if (c->at >= c->end) return Outcome::kEnd;
  if (*c->at == ']') {
    c->at++;
    return Outcome::kDone;
  }
  for (;;) {
    Outcome outcome = element(c);
    if (outcome != Outcome::kDone) return outcome;
    skip_space(c);
    if (c->at >= c->end) return Outcome::kEnd;
    char mark = *c->at++;
    if (mark == ']') return Outcome::kDone;
    if (mark != ',') return Outcome::kBad;
    skip_space(c);
    if (c->at >= c->end) return Outcome::kEnd;
  }
}

unsigned hex4(const char* at) {
  unsigned code = 0;
  for (int i = 0; i < 4; i++) {
    char c = at[i];
    code = code * 16 + static_cast<unsigned>(is_digit(c) ? c - '0' : (c | 32) - 'a' + 10);
  }
  return code;
}

}  // namespace

Outcome read_string(Cursor* c, Value* value) {
  const char* p = c->at + 1;
  value->begin = p;
  value->kind = ValueKind::kString;
  value->escaped = false;
  for (;;) {
    p = special(p, c->end);
    if (p == c->end) return Outcome::kEnd;
    if (*p == '"') break;
    value->escaped = true;
    if (c->end - p < 2) return Outcome::kEnd;
    if (p[1] == 'u') {
      for (int i = 2; i < 6; i++) {
        if (c->end - p <= i) return Outcome::kEnd;
        if (!is_hex(p[i])) return Outcome::kBad;
      }
      p += 6;
    } else {
      if (p[1] == '\0' || std::strchr("\"\\/bfnrt", p[1]) == nullptr) return Outcome::kBad;
      p += 2;
    }
  }
  value->length = static_cast<uint32_t>(p - value->begin);
  c->at = p + 1;
  return Outcome::kDone;
}

Outcome read_value(Cursor* c, Value* value) {
  if (*c->at == '"') return read_string(c, value);
  if (*c->at != '{' && *c->at != '[') return read_scalar(c, value);
  value->begin = c->at;
  value->kind = *c->at == '{' ? ValueKind::kObject : ValueKind::kList;
  value->escaped = false;
  Outcome outcome = read_nested(c, 1);
  value->length = static_cast<uint32_t>(c->at - value->begin);
  return outcome;
}

Outcome skip_brackets(Cursor* c) {
  size_t depth = 0;
  for (const char* p = c->at; p < c->end; p++) {
    switch (*p) {
      case '"':
        p = special(p + 1, c->end);
        while (p < c->end && *p == '\\') p = special(p + 2, c->end);
        if (p == c->end) return Outcome::kEnd;
        break;
      case '{':
      case '[':
        depth++;
        break;
      case '}':
      case ']':
        if (--depth == 0) {
          c->at = p + 1;
          return Outcome::kDone;
        }
        break;
      default:
        break;
    }
  }
  return Outcome::kEnd;
}

void unescape(std::string_view raw, std::string* out) {
  for (size_t i = 0; i < raw.size();) {
    if (raw[i] != '\\') {
      out->push_back(raw[i++]);
      continue;
    }
    char kind = raw[i + 1];
    i += 2;
    switch (kind) {
      case 'b':
        out->push_back('\b');
        break;
      case 'f':
        out->push_back('\f');
        break;
      case 'n':
        out->push_back('\n');
        break;
      case 'r':
        out->push_back('\r');
        break;
      case 't':
        out->push_back('\t');
        break;
      case 'u': {
        unsigned code = hex4(raw.data() + i);
        i += 4;
        bool low_follows = code >= 0xD800 && code < 0xDC00 && i + 6 <= raw.size() &&
                           raw[i] == '\\' && raw[i + 1] == 'u';
        unsigned low = low_follows ? hex4(raw.data() + i + 2) : 0;
        if (low >= 0xDC00 && low < 0xE000) {
          code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
          i += 6;
        }
        append_code_point(code, out);
        break;
      }
      default:
        out->push_back(kind);
    }
  }
}

}  // namespace pilotlight::scan
