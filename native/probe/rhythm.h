// native/probe/rhythm.h: when a step begins, told from what a program calls again and again.
// Keys are addresses: they are compared and never followed.
#pragma once

#include <cstdint>

namespace pilotlight {

// How often one may be called while another is not, before the other no longer counts.
constexpr uint32_t kRoundPatience = 16;
constexpr uint32_t kRhythmPatience = 64;

// Several optimizers make one step: it is over when each that is in use has stepped.
class Rounds {
 public:
  // Whether the round is complete with this call.
  bool called(const void* key) noexcept {
    Entry* mine = find(key);
    if (mine == nullptr) return false;
    if (mine->calls++ == 0) seen_++;
    if (mine->calls >= kRoundPatience) forget_silent();
    if (seen_ < count_) return false;
    for (uint32_t i = 0; i < count_; i++) entries_[i].calls = 0;
    seen_ = 0;
    return true;
  }

  void clear() noexcept { count_ = seen_ = next_ = 0; }

 private:
  struct Entry {
    const void* key;
    uint32_t calls;
  };
  static constexpr uint32_t kMost = 4096;

  // Optimizers step in the same order each time, so the next one is tried first.
  Entry* find(const void* key) noexcept {
    if (next_ < count_ && entries_[next_].key == key) return &entries_[next_++];
    for (uint32_t i = 0; i < count_; i++) {
      if (entries_[i].key == key) {
        next_ = i + 1;
        return &entries_[i];
      }
    }
    if (count_ == kMost) return nullptr;
    entries_[count_] = {key, 0};
    next_ = 0;
    return &entries_[count_++];
  }

  void forget_silent() noexcept {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count_; i++) {
      if (entries_[i].calls > 0) entries_[kept++] = entries_[i];
    }
    count_ = seen_ = kept;
    next_ = 0;
  }

  Entry entries_[kMost];
  uint32_t count_ = 0, seen_ = 0, next_ = 0;
};

// Calls without an optimizer: the first that comes a second time is the beat, and from there on
// each of its calls begins a step. The very first call of all begins the first.
class Rhythm {
 public:
  enum class Call : uint8_t { kOther, kFirst, kBeat };

  Call called(const void* key) noexcept {
    if (key == beat_) {
      other_ = nullptr;
      return Call::kBeat;
    }
    if (beat_ == nullptr) return look_for_beat(key);
    if (key != other_) {
      if (other_ == nullptr || other_calls_ < 2) {
        other_ = key;
        other_calls_ = 0;
      }
      return Call::kOther;
    }
    if (++other_calls_ < kRhythmPatience) return Call::kOther;
    beat_ = key;
    other_ = nullptr;
    return Call::kBeat;
  }

 private:
  static constexpr uint32_t kMost = 32;

  Call look_for_beat(const void* key) noexcept {
    for (uint32_t i = 0; i < count_ && i < kMost; i++) {
      if (keys_[i] != key) continue;
      beat_ = key;
      return Call::kBeat;
    }
    keys_[count_++ % kMost] = key;
    return count_ == 1 ? Call::kFirst : Call::kOther;
  }

  const void* beat_ = nullptr;
  const void* other_ = nullptr;
  uint32_t other_calls_ = 0;
  uint32_t count_ = 0;
  const void* keys_[kMost] = {};
};

}  // namespace pilotlight
