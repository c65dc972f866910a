// native/scan/interner.cpp
#include "scan/interner.h"

#include <cstring>
#include <random>
#include <utility>

#include "scan/utf8.h"

namespace pilotlight::scan {
namespace {

uint64_t mixed(uint64_t a, uint64_t b) {
  auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<uint64_t>(product) ^ static_cast<uint64_t>(product >> 64);
}

uint64_t word(const char* at) {
  uint64_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

}  // namespace

Interner::Interner(uint32_t most_texts, size_t most_bytes, std::string overflow)
    : most_texts_(most_texts),
      most_bytes_(most_bytes),
      overflow_(std::move(overflow)),
      // A file must not be able to choose names that all fall on one place.
      seed_(std::random_device{}() * 0x9E3779B97F4A7C15u | 1),
      slots_(1024) {}

uint64_t Interner::hash(std::string_view text) const {
  constexpr uint64_t kOdd = 0xA0761D6478BD642Fu, kOther = 0xE7037ED1A0B428DBu;
  const char* at = text.data();
  size_t left = text.size();
  uint64_t value = seed_ ^ mixed(left ^ kOdd, kOther);
  while (left > 8) {
    value = mixed(word(at) ^ value, kOdd ^ seed_);
    at += 8;
    left -= 8;
  }
  uint64_t last = 0;
  if (left > 0) std::memcpy(&last, at, left);
  return mixed(last ^ value, kOther ^ seed_);
}

uint32_t Interner::add(std::string_view text) {
  uint64_t h = hash(text);
  size_t mask = slots_.size() - 1;
  for (size_t i = h & mask;; i = (i + 1) & mask) {
    if (slots_[i] == 0) return insert(text, h);
    const Entry& entry = entries_[slots_[i] - 1];
    if (entry.hash == h && text == characters_of(entry)) {
      return entry.number;
    }
  }
}

uint32_t Interner::insert(std::string_view text, uint64_t h) {
  bool valid = is_clean(text);
  if (!valid) repaired_++;
  // A text that is not clean takes a second place, for what stands for it.
  size_t bytes = valid ? text.size() : 4 * text.size();
  if (entries_.size() + (valid ? 1 : 2) > most_texts_ || characters_.size() + bytes > most_bytes_) {
    return full();
  }
  uint32_t number = count_;
  if (!valid) {
    std::string replaced;
    append_clean(text, &replaced);
    number = add(replaced);
    if (number == kNoText) return number;
  }
  Entry entry{characters_.size(), static_cast<uint32_t>(text.size()), number, h};
  if (!characters_.append(text.data(), text.size()) || !entries_.push(entry)) return kNoText;
  auto index = static_cast<uint32_t>(entries_.size());
  if (valid) {
    entry_of_.push_back(index - 1);
    count_++;
  }
  if (entries_.size() * 2 > slots_.size()) {
    grow();
    return number;
  }
  size_t mask = slots_.size() - 1;
  size_t i = h & mask;
  while (slots_[i] != 0) i = (i + 1) & mask;
  slots_[i] = index;
  return number;
}

uint32_t Interner::full() {
  overflowed_++;
  if (overflow_number_ == kNoText && !overflow_.empty()) {
    Entry entry{characters_.size(), static_cast<uint32_t>(overflow_.size()), count_, 0};
    if (!characters_.append(overflow_.data(), overflow_.size()) || !entries_.push(entry)) {
      return kNoText;
    }
    entry_of_.push_back(static_cast<uint32_t>(entries_.size()) - 1);
    overflow_number_ = count_++;
  }
  return overflow_number_;
}

void Interner::grow() {
  slots_.assign(slots_.size() * 2, 0);
  size_t mask = slots_.size() - 1;
  for (size_t entry = 0; entry < entries_.size(); entry++) {
    size_t i = entries_[entry].hash & mask;
    while (slots_[i] != 0) i = (i + 1) & mask;
    slots_[i] = static_cast<uint32_t>(entry) + 1;
  }
}

std::string_view Interner::characters_of(const Entry& entry) const {
  if (entry.length == 0) return {};
  return {characters_.data() + entry.offset, entry.length};
}

std::string_view Interner::text(uint32_t number) const {
  return characters_of(entries_[entry_of_[number]]);
}

}  // namespace pilotlight::scan
