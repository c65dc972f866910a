// native/tests/brief_lock_test.cpp: a flag that a fork left set neither hangs nor goes uncounted.
#include "provider/brief_lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "nccl/events.h"

using namespace pilotlight;

namespace {

#define CHECK(condition)                                     \
  do {                                                       \
    if (!(condition)) {                                      \
      printf("%s:%d: %s\n", __FILE__, __LINE__, #condition); \
      fflush(stdout);                                        \
      _exit(1);                                              \
    }                                                        \
  } while (0)

std::atomic_flag flag = ATOMIC_FLAG_INIT;

double cpu_ms() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return double(t.tv_sec) * 1e3 + double(t.tv_nsec) / 1e6;
}

// Forks while this thread holds the flag, as another thread of the parent's might.
template <typename F>
void in_child_of_a_holder(F&& body) {
  BriefLock held(flag);
  CHECK(held);
  pid_t child = fork();
  if (child == 0) {
    body();
    _exit(0);
  }
  int status = 0;
  CHECK(waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

void a_flag_left_set_is_given_up_at_once() {
  in_child_of_a_holder([] {
    alarm(20);
    double before = cpu_ms();
    for (int i = 0; i < 100; i++) CHECK(!BriefLock(flag));
    // A hundred refusals, each some thousand tries.
    CHECK(cpu_ms() - before < 1000);
  });
}

void who_does_not_hold_it_does_not_clear_it() {
  in_child_of_a_holder([] {
    {
      BriefLock refused(flag);
    }
    CHECK(!BriefLock(flag));
  });
  CHECK(BriefLock(flag));  // in the parent the holder is there, and has let go
}

void events_that_could_not_be_kept_are_counted() {
  static nccl::Events events;
  // Its first member is its flag. As a fork leaves it: set, and nobody to clear it.
  reinterpret_cast<std::atomic_flag*>(&events)->test_and_set();
  for (int i = 0; i < 3; i++) CHECK(events.take(1, nullptr) == nullptr);
  CHECK(events.lost() == 3);
}

}  // namespace

int main() {
  a_flag_left_set_is_given_up_at_once();
  who_does_not_hold_it_does_not_clear_it();
  events_that_could_not_be_kept_are_counted();
  printf("all hold\n");
  return 0;
}
