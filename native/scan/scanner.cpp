// native/scan/scanner.cpp
#include "scan/scanner.h"

#include <algorithm>
#include <cstring>

namespace pilotlight::scan {
namespace {

constexpr size_t kMostPending = size_t{64} << 20;
constexpr const char* kKept[] = {"deviceProperties", "distributedInfo", "baseTimeNanoseconds"};
constexpr const char* kNoTrace = "no traceEvents: not a Chrome or Kineto trace";

const char* reason_of(Outcome outcome) {
  return outcome == Outcome::kDeep ? "nested too deeply" : "no JSON";
}

// Commas that are missing or too many do no harm between events.
void skip_separators(Cursor* c) {
  skip_space(c);
  while (c->at < c->end && *c->at == ',') {
    c->at++;
    skip_space(c);
  }
}

// An object without members, from its brace to behind the other one.
bool is_empty(const char* begin, const char* end) {
  Cursor inside{begin + 1, end};
  skip_space(&inside);
  return inside.at == end - 1;
}

}  // namespace

void Scanner::feed(std::string_view block) {
  if (state_ == State::kDone) return;
  if (front_ > 0) {
    std::memmove(bytes_.data(), bytes_.data() + front_, back_ - front_);
    offset_ += front_;
    back_ -= front_;
    front_ = 0;
  }
  if (bytes_.size() < back_ + block.size() + kPadding) {
    bytes_.resize(back_ + block.size() + kPadding);
  }
  if (!block.empty()) std::memcpy(bytes_.data() + back_, block.data(), block.size());
  back_ += block.size();
  // A long event must not be read from its start with every block.
  if (back_ < enough_) return;
  advance(false);
  enough_ = std::min(2 * (back_ - front_), kMostPending + 1);
  if (back_ - front_ > kMostPending && state_ != State::kDone) {
    std::string text = state_ == State::kList ? "an event" : "a member of the trace";
    text += " longer than " + std::to_string(kMostPending) + " bytes";
    give_up(offset_ + front_, list_seen_ ? text + "; what came before is used" : text, !list_seen_);
  }
}

void Scanner::finish() {
  if (bytes_.size() < back_ + kPadding) bytes_.resize(back_ + kPadding);
  advance(true);
  uint64_t place = offset_ + front_;
  switch (state_) {
    case State::kStart:
      give_up(place, "empty", true);
      break;
    case State::kMembers:
      if (!list_seen_) {
        give_up(place, kNoTrace, true);
      } else {
        give_up(place, "the closing brace is missing", false);
      }
      break;
    case State::kList:
      if (!bare_ || front_ < back_) {
        give_up(place, "the file ends inside the event list; what came before is used", false);
      }
      break;
    default:
      break;
  }
  state_ = State::kDone;
  table.close();
}

void Scanner::advance(bool last) {
  bool more = true;
  while (more && !table.is_full()) {
    switch (state_) {
      case State::kStart:
        more = start();
        break;
      case State::kMembers:
        more = member(last);
        break;
      case State::kList:
        more = element(last);
        break;
      case State::kBehind:
        more = behind();
        break;
      case State::kDone:
        more = false;
        break;
    }
  }
  if (table.is_full() && state_ != State::kDone) {
    give_up(offset_ + front_, "no memory and no disk left; what came before is used", false);
  }
}

bool Scanner::start() {
  Cursor c = cursor();
  size_t there = static_cast<size_t>(c.end - c.at);
  constexpr std::string_view kMark = "\xEF\xBB\xBF";
  if (offset_ + front_ == 0 && there > 0 && *c.at == kMark[0]) {
    if (there < kMark.size()) return false;
    if (std::memcmp(c.at, kMark.data(), kMark.size()) == 0) c.at += kMark.size();
  }
  skip_space(&c);
  used(c.at);
  if (c.at == c.end) return false;
  if (*c.at == '{' || *c.at == '[') {
    bare_ = *c.at == '[';
    list_seen_ = bare_;
    state_ = bare_ ? State::kList : State::kMembers;
    used(c.at + 1);
    return true;
  }
  give_up(place_of(c.at), "neither JSON nor another known format", true);
  return false;
}

bool Scanner::member(bool last) {
  Cursor c = cursor();
  skip_separators(&c);
  used(c.at);
  if (c.at == c.end) return false;
  if (*c.at == '}') {
    used(c.at + 1);
    state_ = State::kBehind;
    if (!list_seen_) give_up(place_of(c.at), kNoTrace, true);
    return true;
  }
  Value key, value;
  Outcome outcome = *c.at == '"' ? read_string(&c, &key) : Outcome::kBad;
  if (outcome == Outcome::kDone) {
    skip_space(&c);
    outcome = c.at == c.end ? Outcome::kEnd : *c.at == ':' ? Outcome::kDone : Outcome::kBad;
  }
  if (outcome == Outcome::kDone) {
    c.at++;
    skip_space(&c);
    if (c.at == c.end) {
      outcome = Outcome::kEnd;
    } else if (key.raw() == "traceEvents" && *c.at == '[') {
      list_seen_ = true;
      state_ = State::kList;
      used(c.at + 1);
      return true;
    } else {
      outcome = read_value(&c, &value);
    }
  }
  if (outcome == Outcome::kEnd) {
    if (last && !list_seen_) give_up(place_of(c.at), kNoTrace, true);
    return false;
  }
  if (outcome != Outcome::kDone) {
    std::string text = reason_of(outcome);
    text += list_seen_ ? " in what follows the events" : ": not a Chrome or Kineto trace";
    give_up(place_of(c.at), text, !list_seen_);
    return false;
  }
  keep(key.raw(), value);
  used(c.at);
  return true;
}

bool Scanner::element(bool last) {
  Cursor c = cursor();
  for (;;) {
    skip_separators(&c);
    used(c.at);
    if (c.at == c.end || table.is_full()) return false;
    if (*c.at != '{') break;
    const char* first = c.at;
    Outcome outcome = read_event(&c, table.keys(), &layout_, &event_);
    if (outcome == Outcome::kEnd) return false;
    if (outcome == Outcome::kDone) {
      // JAX and TensorFlow end their lists with an empty object.
      if (is_empty(first, c.at)) continue;
      const char* reason = table.add(event_, place_of(first));
      if (reason != nullptr) count_malformed(place_of(first), reason);
      continue;
    }
    c.at = first;
    if (skip_brackets(&c) != Outcome::kDone) return false;
    count_malformed(place_of(first), reason_of(outcome));
  }
  if (*c.at == ']') {
    used(c.at + 1);
    state_ = bare_ ? State::kBehind : State::kMembers;
    return true;
  }
  // Not an event. What it is ends at a comma or bracket.
  const char* first = c.at;
  if (*c.at == '[') {
    if (skip_brackets(&c) != Outcome::kDone) return false;
  } else if (*c.at == '"') {
    Value unused;
    Outcome outcome = read_string(&c, &unused);
    if (outcome == Outcome::kEnd) return false;
    if (outcome == Outcome::kBad) c.at = first + 1;
  } else {
    c.at++;
    while (c.at < c.end && std::memchr(",]{[\"", *c.at, 5) == nullptr) c.at++;
    if (c.at == c.end && !last) return false;
  }
  count_malformed(place_of(first), "not an event");
  used(c.at);
  return true;
}

bool Scanner::behind() {
  Cursor c = cursor();
  while (c.at < c.end &&
         (*c.at == '\0' || *c.at == ' ' || *c.at == '\n' || *c.at == '\r' || *c.at == '\t')) {
    c.at++;
  }
  used(c.at);
  if (c.at < c.end) give_up(place_of(c.at), "more behind the end of the trace: left out", false);
  return false;
}

Cursor Scanner::cursor() const { return {bytes_.data() + front_, bytes_.data() + back_}; }

uint64_t Scanner::place_of(const char* at) const {
  return offset_ + static_cast<uint64_t>(at - bytes_.data());
}

void Scanner::used(const char* until) { front_ = static_cast<size_t>(until - bytes_.data()); }

void Scanner::give_up(uint64_t place, std::string text, bool fatal) {
  troubles.push_back({place, std::move(text), fatal});
  state_ = State::kDone;
}

void Scanner::count_malformed(uint64_t place, const char* reason) {
  if (malformed++ == 0) {
    first_malformed = place;
    malformed_reason = reason;
  }
}

void Scanner::keep(std::string_view key, const Value& value) {
  for (const char* wanted : kKept) {
    if (key != wanted || metadata.size() + value.length > kMostPending) continue;
    metadata += metadata.empty() ? "{\"" : ",\"";
    metadata.append(key).append("\":");
    metadata.append(value.raw());
  }
}

}  // namespace pilotlight::scan
