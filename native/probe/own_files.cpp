// native/probe/own_files.cpp
#include "probe/own_files.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#ifndef SYS_close_range
#define SYS_close_range 436
#endif

namespace pilotlight {
namespace {

constexpr unsigned kUnshare = 1u << 1;  // CLOSE_RANGE_UNSHARE

bool close_range(unsigned first, unsigned last, unsigned flags) noexcept {
  return syscall(SYS_close_range, first, last, flags) == 0;
}

}  // namespace

bool take_own_files(int keep, int keep_also) noexcept {
  auto [low, high] = std::minmax(keep, keep_also);
  // Locks of the job's stay: they belong to its table, and it is ours in which files are closed.
  if (!close_range(static_cast<unsigned>(high + 1), ~0u, kUnshare)) return false;
  if (high > low + 1) {
    close_range(static_cast<unsigned>(low + 1), static_cast<unsigned>(high - 1), 0);
  }
  if (low > 0) close_range(0, static_cast<unsigned>(low - 1), 0);
  return true;
}

}  // namespace pilotlight
