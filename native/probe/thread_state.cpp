// native/probe/thread_state.cpp
#include "probe/thread_state.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace pilotlight {
namespace {

int open_task_file(pid_t pid, uint32_t tid, const char* name) noexcept {
  char path[64];
  std::snprintf(path, sizeof(path), "/proc/%d/task/%u/%s", static_cast<int>(pid), tid, name);
  return open(path, O_RDONLY | O_CLOEXEC);
}

// In these a thread sleeps interruptibly, so that the dearer file with the letter need not be read.
bool only_waits(long call) noexcept {
  switch (call) {
    case SYS_futex:
    case SYS_epoll_pwait:
    case SYS_ppoll:
    case SYS_pselect6:
    case SYS_nanosleep:
    case SYS_clock_nanosleep:
#ifdef SYS_epoll_wait
    case SYS_epoll_wait:
#endif
#ifdef SYS_poll
    case SYS_poll:
#endif
#ifdef SYS_select
    case SYS_select:
#endif
      return true;
    default:
      return false;
  }
}

bool is_inside(uint64_t address, uint64_t object, uint64_t bytes) noexcept {
  return object != 0 && address >= object && address - object < bytes;
}

}  // namespace

bool ThreadStateFile::open(pid_t pid, uint32_t tid) noexcept {
  close();
  pid_ = pid;
  tid_ = tid;
  keep(open_task_file(pid, tid, "syscall"));
  char byte;
  has_calls_ = fd_ >= 0 && pread(fd_, &byte, 1, 0) == 1;
  if (has_calls_) return true;
  close();
  keep(open_task_file(pid, tid, "stat"));
  return fd_ >= 0;
}

void ThreadStateFile::keep(int fd) noexcept {
  fd_ = fd;
  if (fd_ >= 0) fstat(fd_, &file_);
}

void ThreadStateFile::close() noexcept {
  // A job may close all descriptors and be given the same numbers for its own files: those are not
  // ours to close.
  struct stat now;
  bool ours =
      fd_ >= 0 && fstat(fd_, &now) == 0 && now.st_dev == file_.st_dev && now.st_ino == file_.st_ino;
  if (ours) ::close(fd_);
  fd_ = -1;
}

ThreadState ThreadStateFile::read(const GilAddresses& gil) const noexcept {
  if (fd_ < 0) return ThreadState::kUnknown;
  if (!has_calls_) return read_letter();
  char text[256];
  ssize_t bytes = pread(fd_, text, sizeof(text) - 1, 0);
  if (bytes <= 0) return ThreadState::kUnknown;
  text[bytes] = 0;
  if (text[0] == 'r') return ThreadState::kRunning;
  char* rest = nullptr;
  long call = std::strtol(text, &rest, 10);
  if (call == SYS_futex) {
    uint64_t address = std::strtoull(rest, nullptr, 16);
    bool waits_for_gil = is_inside(address, gil.cond, sizeof(pthread_cond_t)) ||
                         is_inside(address, gil.mutex, sizeof(pthread_mutex_t));
    return waits_for_gil ? ThreadState::kGilWait : ThreadState::kWaiting;
  }
  return only_waits(call) ? ThreadState::kWaiting : read_letter();
}

ThreadState ThreadStateFile::read_letter() const noexcept {
  int fd = has_calls_ ? open_task_file(pid_, tid_, "stat") : fd_;
  if (fd < 0) return ThreadState::kUnknown;
  char text[512];
  ssize_t bytes = pread(fd, text, sizeof(text) - 1, 0);
  if (fd != fd_) ::close(fd);
  if (bytes <= 0) return ThreadState::kUnknown;
  text[bytes] = 0;
  // The name in parentheses may hold anything, so the last one closes it.
  const char* name_end = std::strrchr(text, ')');
  if (name_end == nullptr || name_end[1] != ' ') return ThreadState::kUnknown;
  switch (name_end[2]) {
    case 'R':
      return ThreadState::kRunning;
    case 'D':
      return ThreadState::kDisk;
    case 'S':
    case 'I':
    case 'T':
    case 't':
      return ThreadState::kWaiting;
    default:
      return ThreadState::kUnknown;
  }
}

uint64_t thread_cpu_ns(uint32_t tid) noexcept {
  // The kernel's encoding of "CPU clock of thread tid"; pthread_getcpuclockid needs a live
  // pthread_t.
  auto clock = static_cast<clockid_t>((~tid << 3) | 6u);
  timespec time;
  if (clock_gettime(clock, &time) != 0) return 0;
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

uint32_t read_thread_name(uint32_t tid, char* name, uint32_t capacity) noexcept {
  int fd = open_task_file(getpid(), tid, "comm");
  if (fd < 0) return 0;
  ssize_t bytes = pread(fd, name, capacity, 0);
  ::close(fd);
  while (bytes > 0 && name[bytes - 1] == '\n') bytes--;
  return bytes < 0 ? 0 : static_cast<uint32_t>(bytes);
}

}  // namespace pilotlight
