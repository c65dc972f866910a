// native/scan/scanner.h: a Chrome trace as it comes, block by block.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "scan/json.h"
#include "scan/table.h"

namespace pilotlight::scan {

// What was wrong, where. A fatal one leaves nothing to use.
struct Trouble {
  uint64_t place;
  std::string text;
  bool fatal;
};

// Holds one block, and an event or member that goes beyond it, but never the file.
class Scanner {
 public:
  explicit Scanner(const Settings& settings) : table(settings) {}

  void feed(std::string_view block);
  // After the last block.
  void finish();
  // Nothing more is of use: the file is none, or its end is known.
  bool is_done() const { return state_ == State::kDone; }

  Table table;
  std::string metadata;  // members around the list that may matter, as a JSON object
  std::vector<Trouble> troubles;
  uint64_t malformed = 0;
  uint64_t first_malformed = kNowhere;
  const char* malformed_reason = "";

 private:
  enum class State : uint8_t { kStart, kMembers, kList, kBehind, kDone };

  void advance(bool last);
  // Each takes one piece off the front; false if it needs more bytes than there are.
  bool start();
  bool member(bool last);
  bool element(bool last);
  bool behind();

  Cursor cursor() const;
  uint64_t place_of(const char* at) const;
  void used(const char* until);
  void give_up(uint64_t place, std::string text, bool fatal);
  void count_malformed(uint64_t place, const char* reason);
  void keep(std::string_view key, const Value& value);

  State state_ = State::kStart;
  bool bare_ = false;
  bool list_seen_ = false;
  std::vector<char> bytes_;  // from front_ to back_, and padding
  size_t front_ = 0, back_ = 0;
  size_t enough_ = 0;    // bytes to wait for before looking again
  uint64_t offset_ = 0;  // of bytes_[0] in the file
  Layout layout_;
  Event event_;
};

}  // namespace pilotlight::scan
