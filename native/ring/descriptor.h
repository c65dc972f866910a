// native/ring/descriptor.h
#pragma once

#include <fcntl.h>
#include <unistd.h>

namespace pilotlight {

// The same file under a high number. A job counts on the lowest ones being its own; where it was
// started without an output for errors, what it writes to 2 would go into ours. -1 with errno if
// there is no number but 0 to 2.
inline int moved_aside(int fd) noexcept {
  constexpr int kAside = 512;
  constexpr int kFirstOwn = STDERR_FILENO + 1;
  if (fd < 0) return -1;
  int moved = fcntl(fd, F_DUPFD_CLOEXEC, kAside);
  // So few may be allowed that there is none as high.
  if (moved < 0 && fd >= kFirstOwn) return fd;
  if (moved < 0) moved = fcntl(fd, F_DUPFD_CLOEXEC, kFirstOwn);
  close(fd);
  return moved;
}

}  // namespace pilotlight
