// native/scan/lead.h: what stands before the values of an object, learned from those before it.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <utility>

#include "scan/json.h"

namespace pilotlight::scan {

// A lead is a brace or comma, space, a key, a colon and space. Who writes a trace repeats them to
// the byte, and in the same order. So the one that came next last time is compared first: where
// it is right, nothing of it is read again, and where the value begins is known at once. It is
// no guess that could be wrong: other bytes are read as they are.
class Leads {
 public:
  static constexpr int kNone = -1;
  static constexpr size_t kStart = 128;  // before the first lead of an object

  // Behind the lead at `at` if it is one of the two that last followed `last`, which then is that
  // one; nullptr if not. `number` is what was learned with it.
  const char* follow(const char* at, const char* end, size_t* last, int* number) {
    if (static_cast<size_t>(end - at) <= kMostBytes) return nullptr;
    Next& next = next_[*last];
    if (!is_there(leads_[next.first], at)) {
      if (!is_there(leads_[next.second], at)) return nullptr;
      std::swap(next.first, next.second);
    }
    *last = next.first;
    *number = leads_[next.first].number;
    return at + leads_[next.first].length;
  }

  // The lead with this key, of `length` bytes, came after `last`.
  void learn(const char* at, size_t length, std::string_view key, int number, size_t* last) {
    size_t place = kStart;
    if (length <= kMostBytes && !key.empty()) {
      place = (key.size() * 31 + static_cast<unsigned char>(key.front()) * 7 +
               static_cast<unsigned char>(key.back()) + length * 13) %
              kStart;
      Lead& lead = leads_[place];
      lead = Lead{};
      std::memcpy(lead.words, at, length);
      std::memset(lead.mask, 0xFF, length);
      lead.length = static_cast<uint8_t>(length);
      lead.number = static_cast<int8_t>(number);
      Next& next = next_[*last];
      next = {static_cast<uint8_t>(place), next.first};
    }
    *last = place;
  }

 private:
  static constexpr size_t kWords = 6;
  static constexpr size_t kMostBytes = kWords * sizeof(uint64_t);

  struct Lead {
    uint64_t words[kWords] = {};
    uint64_t mask[kWords] = {};
    uint8_t length = 0;  // none was learned here
    int8_t number = kNone;
  };
  struct Next {
    uint8_t first = kStart, second = kStart;
  };

  static bool is_there(const Lead& lead, const char* at) {
    uint64_t difference = 0;
    for (size_t i = 0; i < kWords; i++) {
      uint64_t word;
      std::memcpy(&word, at + i * sizeof(word), sizeof(word));
      difference |= (word ^ lead.words[i]) & lead.mask[i];
    }
    return difference == 0 && lead.length != 0;
  }

  std::array<Lead, kStart + 1> leads_;  // that of kStart is never learned
  std::array<Next, kStart + 1> next_;
};

// As read_members; calls `each(number, value)`, the number being that which `find(key)` gives.
template <typename Find, typename Each>
Outcome read_members_by(Cursor* c, Leads* leads, Find&& find, Each&& each) {
  size_t last = Leads::kStart;
  for (bool first = true;; first = false) {
    int number;
    const char* lead = c->at;
    if (const char* value = leads->follow(lead, c->end, &last, &number)) {
      c->at = value;
      skip_space(c);
    } else {
      c->at++;
      skip_space(c);
      if (c->at >= c->end) return Outcome::kEnd;
      if (first && *c->at == '}') {
        c->at++;
        return Outcome::kDone;
      }
      Value key;
      Outcome outcome = read_key(c, &key);
      if (outcome != Outcome::kDone) return outcome;
      number = find(key);
      leads->learn(lead, static_cast<size_t>(c->at - lead), key.raw(), number, &last);
    }
    if (c->at >= c->end) return Outcome::kEnd;
    Outcome outcome = each(number, c);
    if (outcome != Outcome::kDone) return outcome;
    skip_space(c);
    if (c->at >= c->end) return Outcome::kEnd;
    if (*c->at == '}') {
      c->at++;
      return Outcome::kDone;
    }
    if (*c->at != ',') return Outcome::kBad;
  }
}

}  // namespace pilotlight::scan
