// native/drain/ring_reader.h: the reader's half of a ring. Its mirror is ring/ring.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "drain/segment_view.h"

namespace pilotlight {

class RingReader {
 public:
  void open(const SegmentView* view, uint32_t ring) noexcept {
    view_ = view;
    const SegmentHeader& h = view->header();
    slot_ = h.table_offset + sizeof(RingSlot) * uint64_t{ring};
    data_ = h.rings_offset + uint64_t{h.ring_bytes} * ring;
    bytes_ = h.ring_bytes;
    position_ = view->tail(ring);
  }

  // Copies what is published into `scratch`, piece by piece, and calls `record(header, bytes)` for
  // each record but pads, with the record's bytes in private memory. Returns the number of records.
  //
  // Copy first, then check: the producer may write while we read, and what was checked in its
  // memory may have changed by the time it is used. A piece stays in the fastest cache until its
  // records are read.
  template <typename F>
  uint64_t read(std::vector<char>& scratch, F&& record) {
    if (quarantined_) return 0;
    uint64_t head = view_->load64(slot_ + offsetof(RingSlot, head));
    uint64_t available = head - position_;
    if (available == 0) return 0;
    if (available > bytes_ || head % kRecordAlign != 0 || position_ % kRecordAlign != 0) {
      return quarantine();
    }
    scratch.resize(kScratchBytes);
    uint64_t count = 0;
    while (position_ != head) {
      uint64_t start = position_ & (bytes_ - 1);
      // No record crosses the head or the wrap, and a pad ends exactly at the wrap.
      uint64_t to_wrap = bytes_ - start, end = std::min(head - position_, to_wrap);
      uint64_t copied = std::min(end, kScratchBytes);
      if (!view_->copy(data_ + start, scratch.data(), copied)) return count + quarantine();
      uint64_t at = 0;
      while (at < copied) {
        RecordHeader header;
        std::memcpy(&header, scratch.data() + at, sizeof(header));
        uint64_t size = header.size, next = at + size;
        bool is_pad = header.type == static_cast<uint8_t>(RecordType::kPad);
        if (size == 0 || size % kRecordAlign != 0 || next > end ||
            (is_pad ? next != to_wrap : size > kMaxRecordBytes)) {
          position_ += at;
          return count + quarantine();
        }
        if (!is_pad) {
          if (next > copied) break;  // cut off here: it begins the next copy
          record(header, scratch.data() + at);
          count++;
        }
        at = next;
      }
      view_->release_lines(data_ + start, at);
      position_ += at;
    }
    return count;
  }

  // Goes on at a place that an earlier reader had reached, if it is one that can be true.
  bool resume(uint64_t position) noexcept {
    uint64_t head = view_->load64(slot_ + offsetof(RingSlot, head));
    if (position % kRecordAlign != 0 || position - position_ > head - position_) return false;
    position_ = position;
    return true;
  }

  uint64_t position() const noexcept { return position_; }
  bool quarantined() const noexcept { return quarantined_; }
  uint64_t drops() const noexcept { return view_->load64(slot_ + offsetof(RingSlot, drops)); }
  uint64_t nested() const noexcept { return view_->load64(slot_ + offsetof(RingSlot, nested)); }
  // Bytes in the ring that the producer cannot use yet, given the committed tail.
  uint64_t held(uint64_t tail) const noexcept {
    uint64_t held = view_->load64(slot_ + offsetof(RingSlot, head)) - tail;
    return held <= bytes_ ? held : bytes_;
  }

 private:
  static constexpr uint64_t kScratchBytes = 16 << 10;
  static_assert(kScratchBytes >= kMaxRecordBytes && kScratchBytes % kRecordAlign == 0);
  static_assert(sizeof(RecordHeader) == kRecordAlign);

  uint64_t quarantine() noexcept {
    quarantined_ = true;
    return 0;
  }

  const SegmentView* view_ = nullptr;
  uint64_t slot_ = 0;
  uint64_t data_ = 0;
  uint64_t bytes_ = 0;
  uint64_t position_ = 0;
  bool quarantined_ = false;
};

}  // namespace pilotlight
