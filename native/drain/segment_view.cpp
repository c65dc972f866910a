// native/drain/segment_view.cpp
#include "drain/segment_view.h"

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace pilotlight {
namespace {

constexpr uint64_t kMaxSegmentBytes = 256ull << 20;
constexpr uint64_t kMaxArenaBytes = 64ull << 20;
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW;

bool inside(uint64_t offset, uint64_t bytes, uint64_t end) noexcept {
  return offset <= end && bytes <= end - offset;
}

#if defined(__x86_64__)
bool can_flush_lines() noexcept {
  unsigned a = 0, b = 0, c = 0, d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & bit_CLFLUSHOPT) != 0;
}
const bool kCanFlushLines = can_flush_lines();
#endif

}  // namespace

SegmentView::~SegmentView() {
  if (base_ != nullptr) munmap(base_, bytes_);
  if (agent_ != nullptr) munmap(agent_, 2 * kPage);
  if (fd_ >= 0) close(fd_);
}

const char* SegmentView::open(int fd) noexcept {
  fd_ = fcntl(fd, F_DUPFD_CLOEXEC, 3);
  if (fd_ < 0) return "the descriptor cannot be used";
  struct stat status;
  if (fstat(fd_, &status) != 0 || !S_ISREG(status.st_mode)) return "not a memory file";
  if (status.st_size < static_cast<off_t>(kPage)) return "shorter than a segment header";
  bytes_ = static_cast<uint64_t>(status.st_size);
  if (bytes_ > kMaxSegmentBytes) return "larger than any segment";
  int seals = fcntl(fd_, F_GET_SEALS);
  // Only what cannot shrink is mapped: a truncated map would kill us with SIGBUS.
  if (seals >= 0 && (seals & kSeals) == kSeals) {
    void* base = mmap(nullptr, bytes_, PROT_READ, MAP_SHARED, fd_, 0);
    if (base == MAP_FAILED) return "cannot be mapped";
    base_ = static_cast<char*>(base);
  }
  if (!copy(0, &header_, sizeof(header_))) return "the header cannot be read";
  const char* reason = check();
  if (reason != nullptr) return reason;
  if (base_ != nullptr) {
    void* agent = mmap(nullptr, 2 * kPage, PROT_READ | PROT_WRITE, MAP_SHARED, fd_,
                       static_cast<off_t>(header_.agent_offset));
    if (agent == MAP_FAILED) return "the agent pages cannot be mapped for writing";
    agent_ = static_cast<char*>(agent);
  }
  return nullptr;
}

const char* SegmentView::check() noexcept {
  const SegmentHeader& h = header_;
  if (h.magic != kMagic) return "not a pilotlight segment";
  if (h.abi_major != kAbiMajor) {
    return "another ABI: install the same pilotlight version in the job and for the agent";
  }
  if (h.header_bytes < sizeof(SegmentHeader)) return "header too short";
  if (h.segment_bytes != bytes_) return "the header disagrees with the file about the size";
  if (h.ring_count == 0 || h.ring_count > kMaxRings) return "ring count out of range";
  if (h.ring_bytes < kPage || h.ring_bytes > (16u << 20) || (h.ring_bytes & (h.ring_bytes - 1))) {
    return "ring size out of range";
  }
  if (h.agent_offset % kPage != 0 || h.agent_offset < kPage ||
      !inside(h.agent_offset, 2 * kPage, bytes_)) {
    return "agent pages out of range";
  }
  if (h.table_offset % kLine != 0 ||
      !inside(h.table_offset, sizeof(RingSlot) * uint64_t{h.ring_count}, bytes_)) {
    return "ring table out of range";
  }
  if (h.identity_capacity > kIdentityBytes ||
      !inside(h.identity_offset, h.identity_capacity, bytes_)) {
    return "identity out of range";
  }
  if (h.arena_bytes > kMaxArenaBytes || h.arena_offset % kDefinitionAlign != 0 ||
      !inside(h.arena_offset, h.arena_bytes, bytes_)) {
    return "arena out of range";
  }
  if (h.rings_offset % kRecordAlign != 0 ||
      !inside(h.rings_offset, uint64_t{h.ring_count} * h.ring_bytes, bytes_)) {
    return "rings out of range";
  }
  if (h.clock_kind > static_cast<uint32_t>(ClockKind::kCntvct)) return "unknown clock";
  return nullptr;
}

bool SegmentView::copy(uint64_t offset, void* to, uint64_t bytes) const noexcept {
  if (!inside(offset, bytes, bytes_)) return false;
  if (base_ != nullptr) {
    memcpy(to, base_ + offset, bytes);
    return true;
  }
  return pread(fd_, to, bytes, static_cast<off_t>(offset)) == static_cast<ssize_t>(bytes);
}

uint64_t SegmentView::load64(uint64_t offset) const noexcept {
  if (base_ != nullptr) {
    auto* value = reinterpret_cast<const std::atomic<uint64_t>*>(base_ + offset);
    return value->load(std::memory_order_acquire);
  }
  uint64_t value = 0;
  if (!copy(offset, &value, sizeof(value))) value = 0;
  std::atomic_thread_fence(std::memory_order_acquire);
  return value;
}

uint32_t SegmentView::load32(uint64_t offset) const noexcept {
  if (base_ != nullptr) {
    auto* value = reinterpret_cast<const std::atomic<uint32_t>*>(base_ + offset);
    return value->load(std::memory_order_acquire);
  }
  uint32_t value = 0;
  if (!copy(offset, &value, sizeof(value))) value = 0;
  std::atomic_thread_fence(std::memory_order_acquire);
  return value;
}

uint64_t SegmentView::tail(uint32_t ring) const noexcept {
  return load64(header_.agent_offset + kPage + sizeof(RingTail) * uint64_t{ring});
}

void SegmentView::store64(uint64_t agent_offset, uint64_t value) noexcept {
  if (agent_ != nullptr) {
    auto* place = reinterpret_cast<std::atomic<uint64_t>*>(agent_ + agent_offset);
    place->store(value, std::memory_order_release);
    return;
  }
  // A short write leaves the old tail: the ring stays full a little longer, nothing is lost.
  [[maybe_unused]] ssize_t written =
      pwrite(fd_, &value, sizeof(value), static_cast<off_t>(header_.agent_offset + agent_offset));
}

void SegmentView::set_tail(uint32_t ring, uint64_t tail) noexcept {
  // Release: our copy of the records is done before the producer may overwrite them.
  store64(kPage + sizeof(RingTail) * uint64_t{ring}, tail);
}

void SegmentView::claim(uint64_t epoch, uint32_t pid) noexcept {
  store64(offsetof(AgentHeader, epoch), epoch);
  store64(offsetof(AgentHeader, pid), pid);
}

bool SegmentView::owned_by(uint64_t epoch) const noexcept {
  return load64(header_.agent_offset + offsetof(AgentHeader, epoch)) == epoch;
}

void SegmentView::release_lines(uint64_t offset, uint64_t bytes) const noexcept {
#if defined(__x86_64__)
  if (base_ == nullptr || !kCanFlushLines || !inside(offset, bytes, bytes_)) return;
  // A line that is not read to its end is the one that the producer writes to now.
  const char* end = base_ + (offset + bytes) / kLine * kLine;
  for (const char* line = base_ + offset / kLine * kLine; line < end; line += kLine) {
    asm volatile("clflushopt %0" ::"m"(*line));
  }
#else
  (void)offset, (void)bytes;
#endif
}

void SegmentView::release_pages() noexcept {
  if (base_ != nullptr) madvise(base_, bytes_, MADV_DONTNEED);
}

}  // namespace pilotlight
