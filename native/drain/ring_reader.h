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
      uint64_t left = head - position_, to_wrap = bytes_ - start;
      uint64_t copied = std::min({left, to_wrap, kScratchBytes});
      RecordHeader header;
      if (copied < sizeof(header) || !view_->copy(data_ + start, scratch.data(), copied)) {
        return count + quarantine();
      }
      // What is cut off here begins the next copy.
      for (uint64_t at = 0; at + sizeof(header) <= copied;) {
        std::memcpy(&header, scratch.data() + at, sizeof(header));
        bool pad = header.type == static_cast<uint8_t>(RecordType::kPad);
        // No record crosses the wrap, and a pad ends exactly there.
        bool fits = header.size >= sizeof(header) && header.size % kRecordAlign == 0 &&
                    header.size <= left - at && header.size <= to_wrap - at;
        if (!fits || (pad ? header.size != to_wrap - at : header.size > kMaxRecordBytes)) {
          return count + quarantine();
        }
        if (!pad) {
          if (header.size > copied - at) break;
          record(header, scratch.data() + at);
          count++;
        }
        at += header.size;
        position_ += header.size;
      }
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
  static_assert(kScratchBytes >= kMaxRecordBytes);

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
