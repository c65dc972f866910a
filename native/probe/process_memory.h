// native/probe/process_memory.h: reads the memory of a process, this one or another, without trust:
// an address that is not mapped is a failed read, never a signal.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <cstring>

#include "probe/copy_window.h"

namespace pilotlight {

struct Span {
  uint64_t address;
  void* to;
  uint32_t bytes;
};

class ProcessMemory {
 public:
  static constexpr uint32_t kMaxSpans = 320;

  ProcessMemory() = default;
  // With a window: the process is this one.
  explicit ProcessMemory(pid_t pid, const CopyWindow* window = nullptr) noexcept
      : pid_(pid), window_(window) {}

  pid_t pid() const noexcept { return pid_; }
  bool is_own() const noexcept { return window_ != nullptr; }

  bool read(uint64_t address, void* to, uint32_t bytes) const noexcept {
    Span span = {address, to, bytes};
    return read_all(&span, 1);
  }

  // One system call; the spans are copied one after the other, in order. False unless all were.
  bool read_all(const Span* spans, uint32_t count) const noexcept {
    if (count == 0 || count > kMaxSpans) return count == 0;
    iovec remote[kMaxSpans];
    uint32_t wanted = remote_of(spans, count, remote);
    return (window_ != nullptr && copy_all(spans, remote, count, wanted)) ||
           read_remote(spans, remote, count, wanted);
  }

  // The same for spans whose `to` are one after the other from `to` on, but where it can the bytes
  // are left where the system call put them. Returns where they begin, until the next view(); null
  // unless all were copied.
  const unsigned char* view(const Span* spans, uint32_t count,
                            const unsigned char* to) const noexcept {
    if (count > kMaxSpans) return nullptr;
    iovec remote[kMaxSpans];
    uint32_t wanted = remote_of(spans, count, remote);
    const unsigned char* seen = window_ != nullptr ? window_->view(remote, count, wanted) : nullptr;
    if (seen != nullptr) return seen;
    return read_remote(spans, remote, count, wanted) ? to : nullptr;
  }

 private:
  static uint32_t remote_of(const Span* spans, uint32_t count, iovec* remote) noexcept {
    uint32_t wanted = 0;
    for (uint32_t i = 0; i < count; i++) {
      remote[i] = {reinterpret_cast<void*>(spans[i].address), spans[i].bytes};
      wanted += spans[i].bytes;
    }
    return wanted;
  }

  bool copy_all(const Span* spans, const iovec* remote, uint32_t count,
                uint32_t wanted) const noexcept {
    const unsigned char* copy = window_->take(remote, count, wanted);
    if (copy == nullptr) return false;
    for (uint32_t i = 0; i < count; i++) {
      std::memcpy(spans[i].to, copy, spans[i].bytes);
      copy += spans[i].bytes;
    }
    return true;
  }

  bool read_remote(const Span* spans, const iovec* remote, uint32_t count,
                   uint32_t wanted) const noexcept {
    iovec local[kMaxSpans];
    for (uint32_t i = 0; i < count; i++) local[i] = {spans[i].to, spans[i].bytes};
    return process_vm_readv(pid_, local, count, remote, count, 0) == static_cast<ssize_t>(wanted);
  }

  pid_t pid_ = 0;
  const CopyWindow* window_ = nullptr;
};

template <typename T>
T value_at(const unsigned char* bytes, uint32_t offset) noexcept {
  T value;
  std::memcpy(&value, bytes + offset, sizeof(value));
  return value;
}

}  // namespace pilotlight
