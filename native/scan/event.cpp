// native/scan/event.cpp
#include "scan/event.h"

#include <cstring>
#include <utility>

namespace pilotlight::scan {
namespace {

std::string_view text_of(const Value& key, std::string* scratch) {
  if (!key.escaped) return key.raw();
  scratch->clear();
  unescape(key.raw(), scratch);
  return *scratch;
}

constexpr Value Event::* kFields[] = {&Event::phase,    &Event::time,    &Event::id,
                                      &Event::category, &Event::process, &Event::thread,
                                      &Event::duration, &Event::name,    &Event::arguments};
constexpr const char* kFieldKeys[] = {"ph", "ts", "id", "cat", "pid", "tid", "dur", "name", "args"};
constexpr int kArguments = 8;

int field(std::string_view key) {
  if (key.size() < 2 || key.size() > 4) return Leads::kNone;
  for (int i = 0; i <= kArguments; i++) {
    if (key == kFieldKeys[i]) return i;
  }
  return Leads::kNone;
}

}  // namespace

void Keys::add(std::string key) {
  if (size() == kMost || key.empty()) return;
  size_t place = slot(key);
  next_.push_back(first_[place]);
  first_[place] = static_cast<int8_t>(size());
  keys_.push_back(std::move(key));
}

int Keys::find(std::string_view key) const {
  if (key.empty()) return kNone;
  int number = first_[slot(key)];
  while (number != kNone && keys_[static_cast<size_t>(number)] != key) {
    number = next_[static_cast<size_t>(number)];
  }
  return number;
}

Outcome read_event(Cursor* c, const Keys& keys, Layout* layout, Event* event) {
  for (Value Event::* member : kFields) (event->*member).kind = ValueKind::kNone;
  event->present = 0;
  std::string scratch;
  Value unused;
  auto member = [&](const Value& key) { return field(text_of(key, &scratch)); };
  auto argument = [&](const Value& key) { return keys.find(text_of(key, &scratch)); };
  auto read_argument = [&](int number, Cursor* inner) {
    if (number == Keys::kNone) return read_value(inner, &unused);
    event->present |= uint64_t{1} << number;
    return read_value(inner, &event->found[static_cast<size_t>(number)]);
  };
  return read_members_by(c, &layout->members, member, [&](int number, Cursor* inner) {
    if (number == Leads::kNone) return read_value(inner, &unused);
    Value* value = &(event->*kFields[number]);
    if (number != kArguments) return read_value(inner, value);
    event->present = 0;
    if (*inner->at != '{') return read_value(inner, value);
    value->begin = inner->at;
    value->kind = ValueKind::kObject;
    Outcome outcome = read_members_by(inner, &layout->arguments, argument, read_argument);
    value->length = static_cast<uint32_t>(inner->at - value->begin);
    return outcome;
  });
}

}  // namespace pilotlight::scan
