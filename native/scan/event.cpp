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

Value* field(std::string_view key, Event* event) {
  switch (key.size()) {
    case 2:
      if (key == "ph") return &event->phase;
      if (key == "ts") return &event->time;
      if (key == "id") return &event->id;
      return nullptr;
    case 3:
      if (key == "cat") return &event->category;
      if (key == "pid") return &event->process;
      if (key == "tid") return &event->thread;
      if (key == "dur") return &event->duration;
      return nullptr;
    case 4:
      if (key == "name") return &event->name;
      if (key == "args") return &event->arguments;
      return nullptr;
    default:
      return nullptr;
  }
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

Outcome read_event(Cursor* c, const Keys& keys, Event* event) {
  event->phase.kind = event->name.kind = event->category.kind = event->process.kind =
      event->thread.kind = event->time.kind = event->duration.kind = event->id.kind =
          event->arguments.kind = ValueKind::kNone;
  event->present = 0;
  std::string scratch;
  Value unused;
  return read_members(c, [&](const Value& key, Cursor* inner) {
    Value* value = field(text_of(key, &scratch), event);
    if (value != &event->arguments) return read_value(inner, value == nullptr ? &unused : value);
    event->present = 0;
    if (*inner->at != '{') return read_value(inner, value);
    value->begin = inner->at;
    value->kind = ValueKind::kObject;
    Outcome outcome = read_members(inner, [&](const Value& name, Cursor* deeper) {
      int number = keys.find(text_of(name, &scratch));
      if (number == Keys::kNone) return read_value(deeper, &unused);
      event->present |= uint64_t{1} << number;
      return read_value(deeper, &event->found[static_cast<size_t>(number)]);
    });
    value->length = static_cast<uint32_t>(inner->at - value->begin);
    return outcome;
  });
}

}  // namespace pilotlight::scan
