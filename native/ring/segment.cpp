// native/ring/segment.cpp
#include "ring/segment.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ring/descriptor.h"

namespace pilotlight {
namespace {

constexpr size_t kTableBytes = sizeof(Definitions::Entry) * Definitions::kTableSlots;

ssize_t read_file(const char* path, char* text, size_t capacity) noexcept {
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t got = read(fd, text, capacity - 1);
  close(fd);
  text[got > 0 ? got : 0] = 0;
  return got;
}

// Of /proc/PID/stat, from the third on; 0 if it cannot be read.
uint64_t stat_field(int pid, int number) noexcept {
  char path[64], text[1024];
  snprintf(path, sizeof(path), "/proc/%d/stat", pid);
  if (read_file(path, text, sizeof(text)) <= 0) return 0;
  // The name in field 2 may hold anything, also ')' and blanks.
  const char* field = strrchr(text, ')');
  for (int i = 2; i < number && field != nullptr; i++) field = strchr(field + 1, ' ');
  return field == nullptr ? 0 : strtoull(field + 1, nullptr, 10);
}

// A limit on the size of files holds for memory too, and whoever crosses it gets SIGXFSZ, which
// ends a program that is not a Python.
bool is_within_file_limit() noexcept {
  rlimit limit;
  return getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur >= kSegmentBytes;
}

int open_memory() noexcept {
  int fd = memfd_create("pilotlight", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return -1;
  if (ftruncate(fd, kSegmentBytes) != 0 ||
      fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    int error = errno;
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

int open_file(const char* folder, const uint8_t id[16]) noexcept {
  char path[1024];
  int used = snprintf(path, sizeof(path), "%s/%d-", folder, getpid());
  if (used < 0 || used > 900) {
    errno = ENAMETOOLONG;
    return -1;
  }
  for (int i = 0; i < 8; i++) used += snprintf(path + used, 3, "%02x", id[i]);
  strcpy(path + used, ".segment");
  int fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
  if (fd < 0) return -1;
  // Reserved, not only sized: a full disk must fail here, not as SIGBUS in the job.
  int error = posix_fallocate(fd, 0, kSegmentBytes);
  if (error != 0) {
    unlink(path);
    close(fd);
    errno = error;
    return -1;
  }
  return fd;
}

}  // namespace

void read_boot_id(uint8_t out[16]) noexcept {
  char text[64];
  if (read_file("/proc/sys/kernel/random/boot_id", text, sizeof(text)) < 36) return;
  int digit = 0;
  for (const char* c = text; *c != 0 && digit < 32; c++) {
    int value = *c >= '0' && *c <= '9' ? *c - '0' : *c >= 'a' && *c <= 'f' ? *c - 'a' + 10 : -1;
    if (value < 0) continue;
    out[digit / 2] = static_cast<uint8_t>(out[digit / 2] << 4 | value);
    digit++;
  }
}

uint64_t process_start_time(int pid) noexcept { return stat_field(pid, 22); }

uint64_t process_threads(int pid) noexcept { return stat_field(pid, 20); }

const char* why_no_segment(int error) noexcept {
  switch (error) {
    case EMFILE:
    case ENFILE:
      return "the segment cannot be created: no file descriptor is left (ulimit -n)";
    case EFBIG:
      return "the segment cannot be created: files may not be as large (ulimit -f)";
    case ENOMEM:
      return "the segment cannot be created: no memory or address space is left (ulimit -v)";
    case ENOSPC:
    case EDQUOT:
      return "the segment cannot be created: no space is left in its folder";
    case ENOENT:
    case ENOTDIR:
      return "the segment cannot be created: its folder is not there";
    case EACCES:
    case EPERM:
    case EROFS:
      return "the segment cannot be created: not permitted";
    case ENOSYS:
      return "the segment cannot be created: memfd_create is not allowed here";
    default:
      return "the segment cannot be created";
  }
}

bool Segment::create(const char* folder) noexcept {
  if (!is_within_file_limit()) {
    errno = EFBIG;
    return false;
  }
  uint8_t id[16] = {};
  if (getrandom(id, sizeof(id), GRND_NONBLOCK) != sizeof(id)) {
    int64_t seed[2] = {clock_ns(CLOCK_REALTIME), clock_ns(CLOCK_MONOTONIC) ^ getpid()};
    memcpy(id, seed, sizeof(id));
  }
  int fd = moved_aside(folder != nullptr ? open_file(folder, id) : open_memory());
  if (fd < 0) return false;
  void* base = mmap(nullptr, kSegmentBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  void* table =
      mmap(nullptr, kTableBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (base == MAP_FAILED || table == MAP_FAILED) {
    int error = errno;
    if (base != MAP_FAILED) munmap(base, kSegmentBytes);
    if (table != MAP_FAILED) munmap(table, kTableBytes);
    close(fd);
    errno = error;
    return false;
  }
  // A child that never ran our fork handler faults instead of writing into its parent's rings.
  madvise(base, kSegmentBytes, MADV_DONTFORK);

  base_ = static_cast<char*>(base);
  fd_ = fd;
  fstat(fd_, &file_);
  clock_ = trusted_clock();
  table_ = static_cast<Definitions::Entry*>(table);

  SegmentHeader* h = header();
  h->abi_major = kAbiMajor;
  h->abi_minor = kAbiMinor;
  h->header_bytes = sizeof(SegmentHeader);
  h->segment_bytes = kSegmentBytes;
  h->pid = static_cast<uint32_t>(getpid());
  h->ring_count = kMaxRings;
  h->start_time = process_start_time(getpid());
  read_boot_id(h->boot_id);
  memcpy(h->segment_id, id, sizeof(id));
  h->ring_bytes = kRingBytes;
  h->clock_kind = static_cast<uint32_t>(clock_);
  h->agent_offset = kAgentOffset;
  h->table_offset = kTableOffset;
  h->identity_offset = kIdentityOffset;
  h->identity_capacity = kIdentityBytes;
  h->arena_offset = kArenaOffset;
  h->arena_bytes = kArenaBytes;
  h->rings_offset = kRingsOffset;
  h->clock_base = read_clocks(clock_);
  definitions_.open(h, base_ + kArenaOffset, kArenaBytes, table_);
  update_clock();
  // The magic goes last: a segment without it is not finished.
  reinterpret_cast<std::atomic<uint64_t>*>(&h->magic)->store(kMagic, std::memory_order_release);
  return true;
}

void Segment::forget() noexcept {
  // A job that daemonizes has closed it, and may have the number for a file of its own.
  struct stat now = {};
  if (fd_ >= 0 && fstat(fd_, &now) == 0 && now.st_dev == file_.st_dev &&
      now.st_ino == file_.st_ino) {
    close(fd_);
  }
  if (table_ != nullptr) munmap(table_, kTableBytes);
  base_ = nullptr;
  table_ = nullptr;
  fd_ = -1;
}

void Segment::set_identity(std::string_view json) noexcept {
  if (json.size() > kIdentityBytes) return;
  memcpy(base_ + kIdentityOffset, json.data(), json.size());
  header()->identity_size.store(static_cast<uint32_t>(json.size()), std::memory_order_release);
}

void Segment::update_clock() noexcept {
  SegmentHeader* h = header();
  ClockPair now = read_clocks(clock_);
  // A sequence lock: readers retry while it is odd or has moved.
  uint64_t sequence = h->clock_sequence.load(std::memory_order_relaxed);
  h->clock_sequence.store(sequence + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  h->clock_now = now;
  h->clock_sequence.store(sequence + 2, std::memory_order_release);
}

void Segment::turn_off(Off what, const char* reason) noexcept {
  SegmentHeader* h = header();
  // All off outweighs sampling off; the first reason for the same stays.
  uint32_t before = h->off.load(std::memory_order_relaxed);
  if (before == static_cast<uint32_t>(Off::kAll) || before == static_cast<uint32_t>(what)) return;
  strncpy(h->off_reason, reason, kReasonBytes - 1);
  h->off.store(static_cast<uint32_t>(what), std::memory_order_release);
}

bool Segment::take_ring(RingWriter* ring, uint32_t tid, std::string_view thread_name) noexcept {
  RingSlot* table = slots();
  // A retired ring first: it goes on at its head, so nobody has to drain it before it is used
  // again.
  for (RingState wanted : {RingState::kRetired, RingState::kFree}) {
    for (uint32_t i = 0; i < kMaxRings; i++) {
      uint32_t expected = static_cast<uint32_t>(wanted);
      if (table[i].state.load(std::memory_order_relaxed) != expected) continue;
      // Acquire pairs with the release in retire_ring: the last owner's head is visible.
      if (!table[i].state.compare_exchange_strong(
              expected, static_cast<uint32_t>(RingState::kActive), std::memory_order_acquire)) {
        continue;
      }
      table[i].generation++;
      ring->open(&table[i], &tails()[i], base_ + kRingsOffset + uint64_t{i} * kRingBytes,
                 kRingBytes, clock_);
      Thread record = {};
      record.tid = tid;
      if (ring->write(RecordType::kThread, definitions_.string(thread_name), record)) return true;
      // Full and not drained: without its announcement the records would be the last owner's.
      retire_ring(ring);
    }
  }
  return false;
}

void Segment::retire_ring(RingWriter* ring) noexcept {
  if (!ring->is_open()) return;
  RingSlot* slot = ring->slot();
  ring->close();
  slot->phase.store(0, std::memory_order_relaxed);
  slot->state.store(static_cast<uint32_t>(RingState::kRetired), std::memory_order_release);
}

uint64_t Segment::written_bytes() const noexcept {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < kMaxRings; i++) {
    bytes += slots()[i].head.load(std::memory_order_relaxed);
  }
  return bytes;
}

}  // namespace pilotlight
