// native/tests/ring_lttng_bench.cpp: one event of LTTng-UST and one of ours, interleaved; a line of
// both a repeat. Run inside an LTTng session that has pilotlight_bench:event enabled.
#define LTTNG_UST_TRACEPOINT_CREATE_PROBES
#define LTTNG_UST_TRACEPOINT_DEFINE
#include "ring_bench.h"
#include "ring_lttng_provider.h"

namespace {

double lttng_batch_ns() {
  return pilotlight::nanoseconds_each(pilotlight::kBatch, [](uint32_t i) {
    int value = static_cast<int>(i);
    lttng_ust_tracepoint(pilotlight_bench, event, value, value, value);
  });
}

}  // namespace

int main() {
  using namespace pilotlight;
  if (!lttng_ust_tracepoint_enabled(pilotlight_bench, event)) {
    std::fputs("the LTTng session does not record pilotlight_bench:event\n", stderr);
    return 1;
  }
  LiveRing ring;
  for (int i = 0; i < 20; i++) lttng_batch_ns(), ring.batch_ns();
  std::puts("lttng ring");
  for (int i = 0; i < 200; i++) std::printf("%.3f %.3f\n", lttng_batch_ns(), ring.batch_ns());
}
