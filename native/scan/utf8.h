// native/scan/utf8.h: text that is UTF-8 for certain.
#pragma once

#include <string>
#include <string_view>

namespace pilotlight::scan {

// UTF-8 without NUL, which other programs take for the end of a text.
bool is_clean(std::string_view text);

// Each longest part that begins a character and does not finish it becomes U+FFFD, as in Python; so
// does NUL.
void append_clean(std::string_view text, std::string* out);

void append_code_point(unsigned code, std::string* out);

}  // namespace pilotlight::scan
