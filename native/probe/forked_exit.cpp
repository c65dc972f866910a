// native/probe/forked_exit.cpp
#include "probe/forked_exit.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>

namespace pilotlight {
namespace {

#ifdef __GLIBC__
pid_t process_with_thread = 0;

void leave(int status, void*) {
  if (getpid() == process_with_thread) return;
  fflush(nullptr);
  _exit(status);
}
#endif

}  // namespace

// Other C libraries tell no handler the exit code, without which none may end the process.
void skip_earlier_exit_handlers_in_children() noexcept {
#ifdef __GLIBC__
  // In a forked child Kineto may be begun anew: then it has a thread, and exits as ever.
  bool is_known = process_with_thread != 0;
  process_with_thread = getpid();
  if (!is_known) on_exit(leave, nullptr);
#endif
}

}  // namespace pilotlight
