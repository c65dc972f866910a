// native/probe/thread_state.h: what the kernel says of a thread: running, asleep, waiting for the
// GIL.
#pragma once

#include <sys/stat.h>
#include <sys/types.h>

#include <cstdint>

#include "ring/record.h"

namespace pilotlight {

// The addresses on which a thread sleeps that waits for the interpreter lock; zeros: not known.
struct GilAddresses {
  uint64_t cond;
  uint64_t mutex;
};

// One thread's file under /proc, kept open. Moves nothing and owns nothing: close() is the owner's.
class ThreadStateFile {
 public:
  bool open(pid_t pid, uint32_t tid) noexcept;
  void close() noexcept;
  bool is_open() const noexcept { return fd_ >= 0; }
  ThreadState read(const GilAddresses& gil) const noexcept;

 private:
  ThreadState read_letter() const noexcept;
  void keep(int fd) noexcept;

  int fd_ = -1;
  struct stat file_ = {};
  pid_t pid_ = 0;
  uint32_t tid_ = 0;
  bool has_calls_ = false;  // the file tells the system call, not only the state's letter
};

// The CPU time of a thread of this process, or 0 if it is gone. It stands still while the thread
// does not run, to the nanosecond: what was read of its stack between two equal values is exact.
uint64_t thread_cpu_ns(uint32_t tid) noexcept;

// The name of a thread of this process as the kernel has it; 0: it is gone.
uint32_t read_thread_name(uint32_t tid, char* name, uint32_t capacity) noexcept;

}  // namespace pilotlight
