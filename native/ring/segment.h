// native/ring/segment.h: the producer's segment: created, sealed, its rings handed to threads.
#pragma once

#include <sys/stat.h>

#include <atomic>
#include <cstdint>
#include <string_view>

#include "ring/definitions.h"
#include "ring/layout.h"
#include "ring/ring.h"

namespace pilotlight {

const char* why_no_segment(int error) noexcept;

class Segment {
 public:
  // A sealed memfd; or, with a folder, a 0600 file there that outlives a crash of everybody.
  // False: errno says why, and why_no_segment() in words.
  bool create(const char* folder) noexcept;

  // In a forked child: lets go of the parent's segment, which this process does not map.
  void forget() noexcept;

  bool is_open() const noexcept { return base_ != nullptr; }
  int fd() const noexcept { return fd_; }
  SegmentHeader* header() const noexcept { return reinterpret_cast<SegmentHeader*>(base_); }
  Definitions& definitions() noexcept { return definitions_; }
  ClockKind clock() const noexcept { return clock_; }

  void set_identity(std::string_view json) noexcept;
  void update_clock() noexcept;
  void turn_off(Off what, const char* reason) noexcept;

  // Takes a ring for the calling thread and announces it; false: none is left.
  bool take_ring(RingWriter* ring, uint32_t tid, std::string_view thread_name) noexcept;
  void retire_ring(RingWriter* ring) noexcept;

  // Into all rings, ever.
  uint64_t written_bytes() const noexcept;

 private:
  RingSlot* slots() const noexcept { return reinterpret_cast<RingSlot*>(base_ + kTableOffset); }
  RingTail* tails() const noexcept { return reinterpret_cast<RingTail*>(base_ + kTailsOffset); }

  char* base_ = nullptr;
  int fd_ = -1;
  struct stat file_ = {};
  ClockKind clock_ = ClockKind::kMonotonic;
  Definitions definitions_;
  Definitions::Entry* table_ = nullptr;
};

// The kernel's id of this boot, zeros if it cannot be read.
void read_boot_id(uint8_t out[16]) noexcept;

// Field 22 of /proc/PID/stat, or 0.
uint64_t process_start_time(int pid) noexcept;

// Field 20 of it, as Python counts the threads of its process; or 0.
uint64_t process_threads(int pid) noexcept;

}  // namespace pilotlight
