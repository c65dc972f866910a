// native/tests/allowance_test.cpp: what is left for stacks, of jobs that can be reckoned by hand.
#include "probe/allowance.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

using namespace pilotlight;

namespace {

constexpr int64_t kSecond = 1000000000;

// Milliseconds of a second, of a process that took so many and wrote so many records.
double allowed_ms(int64_t job_ms, uint64_t records) {
  return stacks_allowance_ns(kSecond, job_ms * 1000000, records * 32) / 1e6;
}

void expect(const char* what, double found, double wanted) {
  if (fabs(found - wanted) < 1e-9) return;
  printf("%s: %.6f ms, not %.6f\n", what, found, wanted);
  exit(1);
}

}  // namespace

int main() {
  expect("one busy thread without adapters", allowed_ms(1000, 0), 8);
  expect("one that writes 10,000 records", allowed_ms(1000, 10000), 4);
  expect("one whose records cost more than all", allowed_ms(1000, 100000), 3);
  expect("one that only waits", allowed_ms(0, 0), 2);
  expect("one that waits for most of the time", allowed_ms(200, 0), 2);
  expect("one that is busy on eight cores", allowed_ms(8000, 0), 10);
  expect("the same with short steps", allowed_ms(8000, 1000000), 10);
  expect("a longer time", stacks_allowance_ns(2 * kSecond, 2 * kSecond, 0) / 1e6, 16);
  puts("all hold");
  return 0;
}
