// native/probe/copy_window.h: copies memory of this very process that may be gone any moment.
//
// The kernel is asked to write it to a file in memory, which is mapped here: an address that is not
// mapped ends the write, and no page has to be pinned as process_vm_readv does, so it costs half.
#pragma once

#include <sys/uio.h>

#include <cstdint>

namespace pilotlight {

class CopyWindow {
 public:
  static constexpr uint32_t kTakeBytes = 256 * 1024;
  static constexpr uint32_t kViewBytes = 256 * 1024;

  // Only on a thread with files of its own: if the job could close the descriptor and be given its
  // number for a file, that file would be written to.
  bool open() noexcept;
  // In a forked child, where neither the descriptor nor the mapping is.
  void forget() noexcept;

  // The parts one after the other, in order; nullptr unless all of them could be copied. Each has a
  // place of its own: what was taken is there until the next take(), what is viewed until the next
  // view().
  const unsigned char* take(const iovec* parts, uint32_t count, uint32_t bytes) const noexcept;
  const unsigned char* view(const iovec* parts, uint32_t count, uint32_t bytes) const noexcept;

 private:
  static constexpr uint32_t kBytes = kTakeBytes + kViewBytes;

  int fd_ = -1;
  unsigned char* bytes_ = nullptr;
};

}  // namespace pilotlight
