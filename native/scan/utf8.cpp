// native/scan/utf8.cpp
#include "scan/utf8.h"

#include <cstdint>
#include <cstring>

namespace pilotlight::scan {
namespace {

constexpr uint64_t kHighBits = 0x8080808080808080u;
constexpr uint64_t kOnes = 0x0101010101010101u;

// Length of the character at the front; 0 if it is none, and then `*bad` bytes are to be replaced.
size_t character(std::string_view text, size_t* bad) {
  auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  unsigned char lead = byte(0);
  *bad = 1;
  if (lead == 0) return 0;
  if (lead < 0x80) return 1;
  size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                  : lead >= 0xE0 && lead <= 0xEF ? 3
                  : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                 : 0;
  if (length == 0) return 0;
  // The second byte excludes overlong forms, surrogates and what lies beyond U+10FFFF.
  unsigned char least = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  unsigned char most = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (size_t i = 1; i < length; i++) {
    if (i >= text.size() || byte(i) < least || byte(i) > most) {
      *bad = i;
      return 0;
    }
    least = 0x80;
    most = 0xBF;
  }
  return length;
}

}  // namespace

bool is_clean(std::string_view text) {
  while (!text.empty()) {
    uint64_t word;
    while (text.size() >= sizeof(word)) {
      std::memcpy(&word, text.data(), sizeof(word));
      // Also stops at some bytes above a NUL, which are looked at one by one then.
      if (((word | (word - kOnes)) & kHighBits) != 0) break;
      text.remove_prefix(sizeof(word));
    }
    if (text.empty()) break;
    size_t bad;
    size_t length = character(text, &bad);
    if (length == 0) return false;
    text.remove_prefix(length);
  }
  return true;
}

void append_clean(std::string_view text, std::string* out) {
  if (is_clean(text)) {
    out->append(text);
    return;
  }
  while (!text.empty()) {
    size_t bad;
    size_t length = character(text, &bad);
    if (length == 0) {
      out->append("\xEF\xBF\xBD");
      text.remove_prefix(bad);
    } else {
      out->append(text.data(), length);
      text.remove_prefix(length);
    }
  }
}

void append_code_point(unsigned code, std::string* out) {
  if (code >= 0xD800 && code <= 0xDFFF) code = 0xFFFD;
  if (code < 0x80) {
    out->push_back(static_cast<char>(code));
  } else if (code < 0x800) {
    out->push_back(static_cast<char>(0xC0 | code >> 6));
    out->push_back(static_cast<char>(0x80 | (code & 63)));
  } else if (code < 0x10000) {
    out->push_back(static_cast<char>(0xE0 | code >> 12));
    out->push_back(static_cast<char>(0x80 | (code >> 6 & 63)));
    out->push_back(static_cast<char>(0x80 | (code & 63)));
  } else {
    out->push_back(static_cast<char>(0xF0 | code >> 18));
    out->push_back(static_cast<char>(0x80 | (code >> 12 & 63)));
    out->push_back(static_cast<char>(0x80 | (code >> 6 & 63)));
    out->push_back(static_cast<char>(0x80 | (code & 63)));
  }
}

}  // namespace pilotlight::scan
