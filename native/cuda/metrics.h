// native/cuda/metrics.h: the metrics of the hardware that are asked for, and CUPTI's names of them.
// tests/gpu/test_metrics.py asks a real libcupti which of them each chip has.
#pragma once

#include "cuda/metric_set.h"

namespace pilotlight::cupti {

// The most telling first: not every chip has room for all of them.
constexpr Metric kSampledMetrics[] = {
    {"sm_active", {"sm__cycles_active.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {"tensor_active",
     {"sm__pipe_tensor_cycles_active_realtime.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {"dram_active", {"dram__throughput.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {"sm_occupancy",
     {"sm__warps_active_realtime.avg.pct_of_peak_sustained_elapsed",
      "sm__warps_active.avg.pct_of_peak_sustained_elapsed"}},
    {"issue_active", {"sm__inst_executed_realtime.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {"graphics_active", {"gr__cycles_active.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {"dram_read", {"dram__read_throughput.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {"dram_write", {"dram__write_throughput.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {"nvlink_rx_bytes_per_s", {"nvlrx__bytes.sum.per_second", nullptr}},
    {"nvlink_tx_bytes_per_s", {"nvltx__bytes.sum.per_second", nullptr}},
    {"pcie_rx_bytes_per_s", {"pcie__read_bytes.sum.per_second", nullptr}},
    {"pcie_tx_bytes_per_s", {"pcie__write_bytes.sum.per_second", nullptr}},
};
constexpr uint32_t kSampledMetricCount = sizeof(kSampledMetrics) / sizeof(kSampledMetrics[0]);
static_assert(kSampledMetricCount <= MetricSet::kMost);

// Of one kernel. Bytes, nanoseconds, or percent of what the unit could do meanwhile.
constexpr Metric kKernelMetrics[] = {
    {"duration_ns", {"gpu__time_duration.sum", nullptr}},
    {"tensor_active", {"sm__pipe_tensor_cycles_active.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {"dram_active", {"dram__throughput.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {"sm_active", {"sm__cycles_active.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {"sm_occupancy", {"sm__warps_active.avg.pct_of_peak_sustained_active", nullptr}},
    {"dram_bytes", {"dram__bytes.sum", nullptr}},
    {"l2_active", {"lts__t_sectors.avg.pct_of_peak_sustained_elapsed", nullptr}},
    {"issue_active", {"sm__inst_executed.avg.pct_of_peak_sustained_elapsed", nullptr}},
};
constexpr uint32_t kKernelMetricCount = sizeof(kKernelMetrics) / sizeof(kKernelMetrics[0]);
static_assert(kKernelMetricCount <= MetricSet::kMost);

}  // namespace pilotlight::cupti
