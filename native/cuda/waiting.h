// native/cuda/waiting.h: waits that end at a time of their own.
#pragma once

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <time.h>

#include <cstdint>

#include "ring/clock.h"

namespace pilotlight::cupti {

constexpr int64_t kSecondNs = 1000000000;

inline timespec deadline(clockid_t clock, int64_t after_ns) noexcept {
  int64_t then = clock_ns(clock) + after_ns;
  return {then / kSecondNs, then % kSecondNs};
}

// True: it was posted. By the clock that nobody sets, where the C library can: if wall-clock time
// is set back meanwhile, the wait is not longer for it.
inline bool wait_for(sem_t* semaphore, int64_t longest_ns) noexcept {
#if __GLIBC_PREREQ(2, 30)
  timespec until = deadline(CLOCK_MONOTONIC, longest_ns);
  auto wait = [&] { return sem_clockwait(semaphore, CLOCK_MONOTONIC, &until); };
#else
  timespec until = deadline(CLOCK_REALTIME, longest_ns);
  auto wait = [&] { return sem_timedwait(semaphore, &until); };
#endif
  while (wait() != 0) {
    if (errno != EINTR) return false;
  }
  return true;
}

// False: somebody else has had it all that time.
inline bool lock_within(pthread_mutex_t* mutex, int64_t longest_ns) noexcept {
#if __GLIBC_PREREQ(2, 30)
  timespec until = deadline(CLOCK_MONOTONIC, longest_ns);
  return pthread_mutex_clocklock(mutex, CLOCK_MONOTONIC, &until) == 0;
#else
  timespec until = deadline(CLOCK_REALTIME, longest_ns);
  return pthread_mutex_timedlock(mutex, &until) == 0;
#endif
}

}  // namespace pilotlight::cupti
