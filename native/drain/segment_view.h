// native/drain/segment_view.h: the agent's sight of a segment: checked once, then only ever copied
// from. Nothing read here is believed; every offset used is one that was checked at open().
#pragma once

#include <cstdint>

#include "ring/layout.h"

namespace pilotlight {

class SegmentView {
 public:
  SegmentView() = default;
  ~SegmentView();
  SegmentView(const SegmentView&) = delete;
  SegmentView& operator=(const SegmentView&) = delete;

  // Keeps a duplicate of fd. Returns nullptr, or in one line why this is not a segment we can read.
  const char* open(int fd) noexcept;

  // Copies out of the segment; false: beyond its end, or the file has become shorter.
  bool copy(uint64_t offset, void* to, uint64_t bytes) const noexcept;

  // The header as it was checked at open(); live fields in it are stale.
  const SegmentHeader& header() const noexcept { return header_; }
  bool is_file() const noexcept { return base_ == nullptr; }

  // Atomic loads with acquire order from the live header or the ring table.
  uint64_t load64(uint64_t offset) const noexcept;
  uint32_t load32(uint64_t offset) const noexcept;

  uint64_t tail(uint32_t ring) const noexcept;
  void set_tail(uint32_t ring, uint64_t tail) noexcept;

  // Who may move tails. claim() takes the segment over from whoever had it.
  void claim(uint64_t epoch, uint32_t pid) noexcept;
  bool owned_by(uint64_t epoch) const noexcept;

  // Puts the whole cache lines of a read stretch out of this core's cache. A producer whose core is
  // far away would otherwise wait for this one, line by line, when it comes round to them: 65 ns an
  // event instead of 10.
  void release_lines(uint64_t offset, uint64_t bytes) const noexcept;

  // Gives the pages back that reading brought in; the next read brings them in again.
  void release_pages() noexcept;

 private:
  const char* check() noexcept;
  void store64(uint64_t agent_offset, uint64_t value) noexcept;

  SegmentHeader header_ = {};
  int fd_ = -1;
  uint64_t bytes_ = 0;
  char* base_ = nullptr;   // read-only map of everything; null for a file, which is read by pread
  char* agent_ = nullptr;  // writable map of the two agent pages
};

}  // namespace pilotlight
