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
  for (int i = 1; i < count; i++) {
    Result result = metrics.open(ProfilerType::kPmSampling, words[i], nullptr, kSampledMetrics,
                                 kSampledMetricCount);
    printf("%s %d", words[i], result);
    for (uint32_t j = 0; j < metrics.count(); j++) printf(" %s", metrics.label(j));
    printf("\n");
    metrics.close();
  }
}
