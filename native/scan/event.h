// native/scan/event.h: one event of a Chrome trace, in place.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "scan/json.h"
#include "scan/lead.h"

namespace pilotlight::scan {

// A few texts by number: which members of `args` are kept, which categories are known.
class Keys {
 public:
  static constexpr int kMost = 64;
  static constexpr int kNone = -1;

  // At most kMost.
  void add(std::string key);
  int find(std::string_view key) const;
  int size() const { return static_cast<int>(keys_.size()); }
  const std::string& key(int number) const { return keys_[static_cast<size_t>(number)]; }

 private:
  static size_t slot(std::string_view key) {
    return (key.size() * 31 + static_cast<unsigned char>(key.front()) * 7 +
            static_cast<unsigned char>(key.back())) %
           256;
  }
  std::vector<std::string> keys_;
  // The first key with this slot; the next one of the same slot is in next_.
  std::array<int8_t, 256> first_ = filled();
  std::vector<int8_t> next_;
  static std::array<int8_t, 256> filled() {
    std::array<int8_t, 256> slots;
    slots.fill(kNone);
    return slots;
  }
};

struct Event {
  Value phase, name, category, process, thread, time, duration, id, arguments;
  uint64_t present = 0;  // a bit for each member of `found` that is there
  std::array<Value, Keys::kMost> found;

  bool has(int key) const { return (present >> key & 1) != 0; }
  const Value& argument(int key) const { return found[static_cast<size_t>(key)]; }
};

// What the events so far look like: their own members, and those of their arguments.
struct Layout {
  Leads members, arguments;
};

// At the brace of an event. A key that comes twice counts the last time.
Outcome read_event(Cursor* c, const Keys& keys, Layout* layout, Event* event);

}  // namespace pilotlight::scan
