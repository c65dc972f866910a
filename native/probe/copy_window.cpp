// native/probe/copy_window.cpp
#include "probe/copy_window.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

namespace pilotlight {

bool CopyWindow::open() noexcept {
  // The limit on the size of files counts here too.
  rlimit limit = {};
  if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur < kBytes) return false;
  fd_ = memfd_create("pilotlight-copy", MFD_CLOEXEC);
  if (fd_ < 0) return false;
  void* mapped = MAP_FAILED;
  if (ftruncate(fd_, kBytes) == 0) {
    mapped = mmap(nullptr, kBytes, PROT_READ, MAP_SHARED, fd_, 0);
  }
  if (mapped == MAP_FAILED) {
    close(fd_);
    fd_ = -1;
    return false;
  }
  madvise(mapped, kBytes, MADV_DONTFORK);
  bytes_ = static_cast<unsigned char*>(mapped);
  return true;
}

void CopyWindow::forget() noexcept {
  fd_ = -1;
  bytes_ = nullptr;
}

const unsigned char* CopyWindow::take(const iovec* parts, uint32_t count,
                                      uint32_t bytes) const noexcept {
  if (bytes_ == nullptr || bytes > kTakeBytes) return nullptr;
  return pwritev(fd_, parts, static_cast<int>(count), 0) == bytes ? bytes_ : nullptr;
}

const unsigned char* CopyWindow::view(const iovec* parts, uint32_t count,
                                      uint32_t bytes) const noexcept {
  if (bytes_ == nullptr || bytes > kViewBytes) return nullptr;
  ssize_t copied = pwritev(fd_, parts, static_cast<int>(count), kTakeBytes);
  return copied == bytes ? bytes_ + kTakeBytes : nullptr;
}

}  // namespace pilotlight
