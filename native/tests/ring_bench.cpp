// native/tests/ring_bench.cpp: one event against its floor, interleaved; a line of both a repeat.
#include "ring_bench.h"

int main() {
  using namespace pilotlight;
  CHECK(trusted_clock() == ClockKind::kTsc);
  Floor floor;
  LiveRing ring;
  for (int i = 0; i < 20; i++) floor.batch_ns(), ring.batch_ns();
  std::puts("floor ring");
  for (int i = 0; i < 400; i++) std::printf("%.3f %.3f\n", floor.batch_ns(), ring.batch_ns());
}
