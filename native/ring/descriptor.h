// native/ring/descriptor.h
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace pilotlight {

// The same file under a high number. A job counts on the lowest ones being its own; where it was
// started without an output for errors, what it writes to 2 would go into ours. -1 with EMFILE if
// so few are allowed that the job needs them all.
inline int moved_aside(int fd) noexcept {
  constexpr int kAside = 512;
  constexpr int kFirstOwn = STDERR_FILENO + 1;
  constexpr rlim_t kFewest = 16;
  if (fd < 0) return -1;
  int moved = fcntl(fd, F_DUPFD_CLOEXEC, kAside);
  rlimit limit = {};
  if (moved < 0 && getrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_cur >= kFewest) {
    if (fd >= kFirstOwn) return fd;
    moved = fcntl(fd, F_DUPFD_CLOEXEC, kFirstOwn);
  }
  close(fd);
  if (moved < 0) errno = EMFILE;
  return moved;
}

}  // namespace pilotlight
