// native/probe/process_memory.h: reads the memory of a process, this one or another, without trust:
// an address that is not mapped is a failed read, never a signal.
#pragma once

#include <sys/types.h>
#include <sys/uio.h>

#include <cstdint>
#include <cstring>

namespace pilotlight {

struct Span {
  uint64_t address;
  void* to;
  uint32_t bytes;
};

class ProcessMemory {
 public:
  static constexpr uint32_t kMaxSpans = 128;

  void open(pid_t pid) noexcept { pid_ = pid; }
  pid_t pid() const noexcept { return pid_; }

  bool read(uint64_t address, void* to, uint32_t bytes) const noexcept {
    Span span = {address, to, bytes};
    return read_all(&span, 1);
  }

  // One system call; the spans are copied one after the other, in order. False unless all were.
  bool read_all(const Span* spans, uint32_t count) const noexcept {
    if (count == 0 || count > kMaxSpans) return count == 0;
    iovec local[kMaxSpans];
    iovec remote[kMaxSpans];
    ssize_t wanted = 0;
    for (uint32_t i = 0; i < count; i++) {
      local[i] = {spans[i].to, spans[i].bytes};
      remote[i] = {reinterpret_cast<void*>(spans[i].address), spans[i].bytes};
      wanted += spans[i].bytes;
    }
    return process_vm_readv(pid_, local, count, remote, count, 0) == wanted;
  }

 private:
  pid_t pid_ = 0;
};

template <typename T>
T value_at(const unsigned char* bytes, uint32_t offset) noexcept {
  T value;
  std::memcpy(&value, bytes + offset, sizeof(value));
  return value;
}

}  // namespace pilotlight
