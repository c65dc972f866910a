// native/ring/ring.h: the producer's half of a ring. Its mirror is drain/ring_reader.h.
//
// One thread writes, one process reads. A record becomes visible by one release store of `head`, so
// a producer killed at any instruction leaves nothing to repair. A full ring drops the newest
// record and counts it; nothing here waits.
#pragma once

#include <cstdint>
#include <cstring>
#include <type_traits>

#include "ring/clock.h"
#include "ring/layout.h"

namespace pilotlight {

// On a line of its own: a program that leaves little of us in the caches fetches one for a record.
class alignas(kLine) RingWriter {
 public:
  RingWriter() = default;

  void open(RingSlot* slot, RingTail* tail, char* data, uint32_t bytes, ClockKind clock) noexcept {
    slot_ = slot;
    tail_ = tail;
    data_ = data;
    mask_ = bytes - 1;
    clock_ = clock;
    // Aligned whatever stands there: the end of the ring must not be crossed.
    head_ = slot->head.load(std::memory_order_relaxed) & ~uint64_t{kRecordAlign - 1};
    limit_ = 0;
    reserve_ = bytes / kReserveOneIn & ~(kRecordAlign - 1);
    lost_ = {};
    open_ranges_ = 0;
    // A fork may have copied it in the middle of a record.
    writing_ = false;
    refresh_limit();
  }

  // The process ends: from now on also the room that is kept for its last words may be written.
  void use_reserve() noexcept {
    reserve_ = 0;
    limit_ = 0;
  }

  // The name of the innermost range that this thread has open; 0: none. For whoever launches work.
  uint32_t innermost_range() const noexcept {
    if (open_ranges_ == 0) return 0;
    return ranges_[(open_ranges_ < kKeptRanges ? open_ranges_ : kKeptRanges) - 1];
  }

  // A phase is written when it has ended; until then those who look on see it in the slot.
  void begin_phase(uint32_t name, uint64_t ticks) noexcept {
    // Release: who sees this time sees also that the phase before has ended.
    slot_->phase_ticks.store(ticks, std::memory_order_release);
    slot_->phase.store(name, std::memory_order_release);
    open_range(name);
  }
  void end_phase() noexcept {
    slot_->phase.store(0, std::memory_order_release);
    close_range();
  }

  bool is_open() const noexcept { return slot_ != nullptr; }
  void close() noexcept { slot_ = nullptr; }
  ClockKind clock() const noexcept { return clock_; }
  RingSlot* slot() const noexcept { return slot_; }

  // For a writer that can wait: whether a record of this size would fit now, at the wrap too.
  bool has_room(uint32_t bytes) noexcept {
    if (head_ + bytes <= limit_) return true;
    refresh_limit();
    uint64_t wrap = (head_ | mask_) + 1;
    uint64_t needed = head_ + bytes > wrap ? wrap + bytes : head_ + bytes;
    bool fits = needed + (lost_.count != 0 ? sizeof(Gap) : 0) <= free_end_;
    // A gap that is to be told first is told by the next write.
    if (lost_.count != 0) limit_ = 0;
    return fits;
  }

  // Writes one record: T starts with a RecordHeader, whose size, type, id and ticks are set here.
  template <typename T>
  bool write(RecordType type, uint32_t id, const T& record) noexcept {
    return write_at(type, id, record, ticks_of(clock_));
  }

  template <typename T>
  bool write_at(RecordType type, uint32_t id, const T& record, uint64_t ticks) noexcept {
    static_assert(sizeof(T) % kRecordAlign == 0 && sizeof(T) <= kMaxRecordBytes);
    static_assert(std::is_standard_layout_v<T> && std::is_trivially_copyable_v<T>);
    // A signal handler may interrupt us between here and `writing_ = false`; its record would land
    // on ours, so it is dropped.
    if (writing_) return nested();
    writing_ = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (__builtin_expect(head_ + sizeof(T) > limit_, 0) && !make_room(sizeof(T), ticks)) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
      writing_ = false;
      return false;
    }
    publish(type, id, record, ticks);
    return true;
  }

  // The same if nothing is in its way and the clock is read without a call; else nothing happens.
  // So a caller whose rest is a call of write() keeps no register for it.
  template <typename T>
  bool write_at_once(RecordType type, uint32_t id, const T& record) noexcept {
    if (__builtin_expect(writing_ || !is_read_at_once(clock_), 0)) return false;
    writing_ = true;
    std::atomic_signal_fence(std::memory_order_seq_cst);
    if (__builtin_expect(head_ + sizeof(T) > limit_, 0)) {
      std::atomic_signal_fence(std::memory_order_seq_cst);
      writing_ = false;
      return false;
    }
    publish(type, id, record, ticks_at_once());
    return true;
  }

 private:
  static constexpr uint32_t kKeptRanges = 16;
  static constexpr uint32_t kReserveOneIn = 128;  // bytes of the ring
  struct Lost {
    uint64_t count, first_ticks, last_ticks;
  };

  template <typename T>
  void publish(RecordType type, uint32_t id, const T& record, uint64_t ticks) noexcept {
    uint64_t head = head_ + sizeof(T);
    char* place = data_ + (head_ & mask_);
    auto* from = reinterpret_cast<const char*>(&record);
    // All in whole words: a record put together field by field and then copied at once makes the
    // CPU wait for its own narrow stores, which doubles the cost of an event.
    uint64_t words[2] = {sizeof(T) | uint64_t{static_cast<uint8_t>(type)} << 16 |
                             uint64_t{reinterpret_cast<const RecordHeader*>(from)->flags} << 24 |
                             uint64_t{id} << 32,
                         ticks};
    std::memcpy(place, words, sizeof(words));
    for (size_t at = sizeof(words); at < sizeof(T); at += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, from + at, sizeof(word));
      // Or the compiler makes one wide load of two words that were stored one by one.
      asm("" : "+r"(word));
      std::memcpy(place + at, &word, sizeof(word));
    }
    head_ = head;
    // Publish: the payload, then the head.
    slot_->head.store(head, std::memory_order_release);
    std::atomic_signal_fence(std::memory_order_seq_cst);
    writing_ = false;
    // Callers name the type outright, so for all others this is nothing.
    if (type == RecordType::kBegin) {
      open_range(id);
    } else if (type == RecordType::kEnd) {
      close_range();
    }
  }

  void open_range(uint32_t id) noexcept {
    if (open_ranges_ < kKeptRanges) ranges_[open_ranges_] = id;
    open_ranges_++;
  }
  void close_range() noexcept { open_ranges_ -= open_ranges_ != 0; }

  bool nested() noexcept {
    slot_->nested.fetch_add(1, std::memory_order_relaxed);
    return false;
  }

  // `limit_` is the end of what may be written without looking again: the wrap or the reader's
  // tail, whichever comes first; 0 while a gap is to be written first.
  void refresh_limit() noexcept {
    uint64_t capacity = uint64_t{mask_} + 1 - reserve_;
    // Acquire: the reader's copy of the old bytes happens before we overwrite them.
    uint64_t tail = tail_->tail.load(std::memory_order_acquire);
    // A tail that cannot be true is a broken or hostile reader: full, until it makes sense again.
    uint64_t used = head_ - tail;
    uint64_t free_end = used <= capacity ? tail + capacity : head_;
    uint64_t wrap = (head_ | mask_) + 1;
    limit_ = free_end < wrap ? free_end : wrap;
    free_end_ = free_end;
  }

  // After this the record fits at `head_`; or it is counted as dropped.
  __attribute__((noinline)) bool make_room(uint32_t bytes, uint64_t ticks) noexcept {
    refresh_limit();
    bool told = lost_.count == 0 || write_gap();
    if (told && (head_ + bytes <= limit_ || pad_to_wrap(bytes))) return true;
    drop(ticks);
    return false;
  }

  // Fills the rest before the wrap if the record then fits behind it.
  bool pad_to_wrap(uint32_t bytes) noexcept {
    uint64_t wrap = (head_ | mask_) + 1;
    if (head_ + bytes <= wrap) return false;  // not the wrap but the reader is in the way
    if (wrap + bytes > free_end_) return false;
    uint32_t room = static_cast<uint32_t>(wrap - head_);
    RecordHeader pad = {static_cast<uint16_t>(room), static_cast<uint8_t>(RecordType::kPad), 0, 0,
                        0};
    std::memcpy(data_ + (head_ & mask_), &pad, sizeof(pad));
    head_ = wrap;
    refresh_limit();
    return head_ + bytes <= limit_;
  }

  bool write_gap() noexcept {
    if (head_ + sizeof(Gap) > limit_ && !pad_to_wrap(sizeof(Gap))) return false;
    Gap gap = {};
    gap.header = {sizeof(Gap), static_cast<uint8_t>(RecordType::kGap), 0, 0, lost_.last_ticks};
    gap.count = lost_.count;
    gap.first_ticks = lost_.first_ticks;
    gap.last_ticks = lost_.last_ticks;
    std::memcpy(data_ + (head_ & mask_), &gap, sizeof(gap));
    head_ += sizeof(gap);
    slot_->head.store(head_, std::memory_order_release);
    lost_ = {};
    return true;
  }

  void drop(uint64_t ticks) noexcept {
    if (lost_.count++ == 0) lost_.first_ticks = ticks;
    lost_.last_ticks = ticks;
    limit_ = 0;
    slot_->drops.fetch_add(1, std::memory_order_relaxed);
  }

  // First what every record needs.
  RingSlot* slot_ = nullptr;
  char* data_ = nullptr;
  uint64_t mask_ = 0;
  uint64_t head_ = 0;
  uint64_t limit_ = 0;
  ClockKind clock_ = ClockKind::kMonotonic;
  volatile bool writing_ = false;
  uint32_t open_ranges_ = 0;
  uint32_t ranges_[kKeptRanges] = {};
  RingTail* tail_ = nullptr;
  uint64_t free_end_ = 0;
  uint64_t reserve_ = 0;
  Lost lost_ = {};
};

}  // namespace pilotlight
