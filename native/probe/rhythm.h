// native/probe/rhythm.h: when a step begins, told from what a program calls again and again.
// Keys are addresses: they are compared and never followed.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pilotlight {

// How often one may be called while another is not, before the other no longer counts.
constexpr uint32_t kRoundPatience = 16;
constexpr uint32_t kRhythmPatience = 64;
// How many times as often as the beat another is called that may be the real one.
constexpr uint32_t kFarOften = 4;

// When steps may have begun, until it is known whether they did.
template <uint32_t kMost>
struct HeldSteps {
  uint32_t count = 0;
  uint64_t ticks[kMost];

  // False if there is no room.
  bool add(uint64_t when) noexcept {
    if (count == kMost) return false;
    ticks[count++] = when;
    return true;
  }
  void clear() noexcept { count = 0; }
};

// Several optimizers make one step: it is over when each that is in use has stepped.
class Rounds {
 public:
  enum class Call : uint8_t {
    kPart,
    kTurn,           // all that have stepped in this round have done so once more: a round, maybe
    kRound,          // complete; its turns were a part of it
    kTurnsAreRounds  // complete, and its turns were rounds: those that were missing are out of use
  };

  // It will step sooner or later; what stepped before and never again has had its time.
  void made(const void* key) noexcept {
    was_forgotten(key);  // another object, at the address of one that is gone
    Entry* mine = find(key);
    if (mine == nullptr) return;
    mine->made = ++made_;
    mine->last = kNever;
    mine->comes_back = false;
  }

  // The only one there is, as in most programs: each of its calls is a round.
  bool is_alone(const void* key) noexcept {
    if (count_ != 1 || entries_[0].key != key || seen_ != 0) return false;
    entries_[0].last = made_;
    return true;
  }

  Call called(const void* key) noexcept {
    Entry* mine = find(key);
    if (mine == nullptr) return Call::kPart;
    mine->last = made_;
    if (mine->calls++ == 0) seen_++;
    if (mine->calls == turns_ + 1) level_++;
    uint32_t known = count_;
    if (mine->calls >= kRoundPatience) {
      forget_silent(kNever + 1);
    } else if (mine->calls >= 2) {
      forget_silent(mine->made);
    }
    if (seen_ == count_) {
      bool is_whole = known == count_;
      if (is_whole) most_turns_ = std::max(most_turns_, turns_);
      begin();
      return is_whole ? Call::kRound : Call::kTurnsAreRounds;
    }
    if (level_ < seen_) return Call::kPart;
    turns_++;
    level_ = 0;
    for (uint32_t i = 0; i < count_; i++) level_ += entries_[i].calls > turns_;
    return Call::kTurn;
  }

  // At the end: whether what is missing from this round was not just a turn away.
  bool are_rounds() const noexcept { return turns_ > most_turns_; }

  bool empty() const noexcept { return count_ == 0; }

  void clear() noexcept {
    count_ = seen_ = next_ = turns_ = level_ = most_turns_ = 0;
    made_ = forgotten_count_ = 0;
  }

 private:
  struct Entry {
    const void* key;
    uint32_t calls;
    bool comes_back;  // it stepped again after it had been taken for out of use
    uint64_t made;    // how many had been made when it was, and when it last stepped
    uint64_t last;
  };
  static constexpr uint64_t kNever = uint64_t{1} << 32;
  static constexpr uint32_t kMost = 4096;
  static constexpr uint32_t kMostForgotten = 16;

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
    entries_[count_] = {key, 0, was_forgotten(key), made_, kNever};
    next_ = 0;
    return &entries_[count_++];
  }

  // Those that have not stepped in this round, if they last did so before that many were made. One
  // that came back after that steps around those that are made anew each time, as in learning to
  // learn: it is silent for longer before it is out of use again.
  void forget_silent(uint64_t made) noexcept {
    uint32_t kept = 0;
    for (uint32_t i = 0; i < count_; i++) {
      const Entry& each = entries_[i];
      bool stays = each.calls > 0 || each.last >= made || (each.comes_back && made <= kNever);
      if (stays) {
        entries_[kept++] = each;
      } else {
        forgotten_[forgotten_count_++ % kMostForgotten] = each.key;
      }
    }
    if (kept != count_) next_ = 0;
    count_ = kept;
  }

  bool was_forgotten(const void* key) noexcept {
    for (uint64_t i = 0; i < std::min<uint64_t>(forgotten_count_, kMostForgotten); i++) {
      if (forgotten_[i] != key) continue;
      forgotten_[i] = nullptr;
      return true;
    }
    return false;
  }

  void begin() noexcept {
    for (uint32_t i = 0; i < count_; i++) entries_[i].calls = 0;
    seen_ = turns_ = level_ = 0;
  }

  // The counts first, beside the first entry: most programs have one.
  uint32_t count_ = 0, seen_ = 0, next_ = 0;
  uint32_t turns_ = 0, level_ = 0;  // turns of this round; how many are past the last of them
  uint32_t most_turns_ = 0;         // that a whole round had
  uint64_t made_ = 0;
  Entry entries_[kMost];
  uint64_t forgotten_count_ = 0;
  const void* forgotten_[kMostForgotten] = {};
};

// Calls without an optimizer: the first that comes a second time is the beat, and from there on
// each of its calls begins a step. The very first call of all begins the first. Another that comes
// 64 times without the beat takes over. If the beat had not been one for as long, the other's calls
// until then were steps already; else the old beat takes over again with its next call.
class Rhythm {
 public:
  enum class Call : uint8_t { kOther, kFirst, kBeat, kHeldAndBeat };

  // Of the calls of those that may take over. Too much for every thread to have.
  struct Times {
    HeldSteps<kRhythmPatience> other, newcomer;
  };

  // After kHeldAndBeat `times->other` has the steps until now, this one the last. Without `times`
  // they are not kept.
  template <typename Now>
  Call called(const void* key, Times* times, Now now) noexcept {
    if (key == beat_) {
      beats_ += beats_ < kRhythmPatience;
      other_.key = newcomer_.key = nullptr;
      return Call::kBeat;
    }
    if (beat_ == nullptr) return look_for_beat(key);
    if (key == home_) {
      begin(key);
      return Call::kBeat;
    }
    if (key == other_.key) {
      newcomer_.key = nullptr;
      other_.calls++;
      if (times != nullptr) times->other.add(now());
    } else {
      come(key, times, now);
    }
    return other_.calls < kRhythmPatience ? Call::kOther : take_over(times);
  }

  // Before called(): whether this is a young beat that now and then interrupts another, as the
  // evaluation of a training does. Then it is no step and does not interrupt the count.
  bool is_rare(const void* key) noexcept {
    if (key != beat_ || other_.key == nullptr || beats_ >= kRhythmPatience) return false;
    if (other_.calls < kFarOften * (beats_ + 1)) return false;
    beats_++;
    return true;
  }

  // At the end: whether another was called more often than the beat, but had no time to take over.
  bool was_to_change() const noexcept {
    return home_ == nullptr && other_.key != nullptr && other_.calls > beats_;
  }

 private:
  static constexpr uint32_t kMost = 32;

  struct Candidate {
    const void* key = nullptr;
    uint32_t calls = 0;
  };

  Call look_for_beat(const void* key) noexcept {
    for (uint32_t i = 0; i < count_ && i < kMost; i++) {
      if (keys_[i] != key) continue;
      begin(key);
      return Call::kBeat;
    }
    keys_[count_++ % kMost] = key;
    return count_ == 1 ? Call::kFirst : Call::kOther;
  }

  void begin(const void* key) noexcept {
    beat_ = key;
    beats_ = 1;
    other_.key = newcomer_.key = nullptr;
  }

  // Whoever is called more often than the one before it, without it, is next in line.
  template <typename Now>
  void come(const void* key, Times* times, Now now) noexcept {
    if (key != newcomer_.key) {
      newcomer_ = {key, 0};
      if (times != nullptr) times->newcomer.clear();
    }
    newcomer_.calls++;
    if (times != nullptr) times->newcomer.add(now());
    if (other_.key != nullptr && newcomer_.calls <= other_.calls) return;
    other_ = newcomer_;
    newcomer_.key = nullptr;
    if (times != nullptr) times->other = times->newcomer;
  }

  Call take_over(const Times* times) noexcept {
    bool is_young = beats_ < kRhythmPatience;
    bool were_steps = is_young && home_ == nullptr && times != nullptr;
    if (!is_young && home_ == nullptr) home_ = beat_;
    begin(other_.key);
    beats_ = kRhythmPatience;
    return were_steps ? Call::kHeldAndBeat : Call::kBeat;
  }

  const void* beat_ = nullptr;
  const void* home_ = nullptr;  // the beat of old, where another stands in for it
  uint32_t beats_ = 0;          // up to the patience
  Candidate other_, newcomer_;
  uint32_t count_ = 0;
  const void* keys_[kMost] = {};
};

}  // namespace pilotlight
