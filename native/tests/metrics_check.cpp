// native/tests/metrics_check.cpp: what our choice of metrics comes to on a chip, with whatever
// libcupti PILOTLIGHT_CUPTI names: the real one answers this without a GPU.
#include <stdio.h>

#include "cuda/metrics.h"

int main(int count, char** words) {
  using namespace pilotlight::cupti;
  Library library;
  const char* why = library.open();
  MetricSet metrics;
  if (why != nullptr || !metrics.find_functions(library)) {
    fprintf(stderr, "%s\n", why != nullptr ? why : "this libcupti has no Profiler Host API");
    return 1;
  }
  auto tell = [&](const char* way, const char* chip, Result result) {
    printf("%s %s %d", way, chip, result);
    for (uint32_t j = 0; j < metrics.count(); j++) printf(" %s", metrics.label(j));
    printf("\n");
    metrics.close();
  };
  for (int i = 1; i < count; i++) {
    const char* chip = words[i];
    tell("pm", chip,
         metrics.open(ProfilerType::kPmSampling, chip, nullptr, kSampledMetrics,
                      kSampledMetricCount));
    tell("range", chip,
         metrics.open(ProfilerType::kRange, chip, nullptr, kKernelMetrics, kKernelMetricCount));
  }
}
