/* Preloaded: the system's clock, off by as many seconds as the file PILOTLIGHT_TEST_CLOCK says. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

int clock_gettime(clockid_t clock, struct timespec* now) {
  static int (*real)(clockid_t, struct timespec*);
  if (real == NULL) *(void**)&real = dlsym(RTLD_NEXT, "clock_gettime");
  int failed = real(clock, now);
  if (failed || clock != CLOCK_REALTIME) return failed;
  const char* path = getenv("PILOTLIGHT_TEST_CLOCK");
  FILE* file = path != NULL ? fopen(path, "re") : NULL;
  long seconds = 0;
  if (file != NULL) {
    if (fscanf(file, "%ld", &seconds) == 1) now->tv_sec += seconds;
    fclose(file);
  }
  return 0;
}
