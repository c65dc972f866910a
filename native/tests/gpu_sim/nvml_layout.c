// Prints how NVIDIA's own header lays out what the agent reads by ctypes.
#include <nvml.h>
#include <stddef.h>
#include <stdio.h>

#define SIZE(type) printf("%s %zu\n", #type, sizeof(type))
#define PLACE(type, field) printf("%s.%s %zu\n", #type, #field, offsetof(type, field))
#define NUMBER(name) printf("%s %lld\n", #name, (long long)(name))

int main(void) {
  SIZE(nvmlUtilization_t);
  SIZE(nvmlMemory_t);
  PLACE(nvmlMemory_t, used);
  SIZE(nvmlFieldValue_t);
  PLACE(nvmlFieldValue_t, valueType);
  PLACE(nvmlFieldValue_t, nvmlReturn);
  PLACE(nvmlFieldValue_t, value);
  SIZE(nvmlProcessInfo_t);
  PLACE(nvmlProcessInfo_t, usedGpuMemory);
  SIZE(nvmlEventData_t);
  PLACE(nvmlEventData_t, eventType);
  PLACE(nvmlEventData_t, eventData);
  SIZE(nvmlGpmSupport_t);
  SIZE(nvmlGpmMetric_t);
  PLACE(nvmlGpmMetric_t, value);
  PLACE(nvmlGpmMetricsGet_t, metrics);
  PLACE(nvmlGpmMetricsGet_t, sample1);
  NUMBER(NVML_GPM_METRIC_MAX);
  NUMBER(NVML_ERROR_NOT_SUPPORTED);
  NUMBER(NVML_ERROR_NO_PERMISSION);
  NUMBER(NVML_ERROR_INSUFFICIENT_SIZE);
  NUMBER(NVML_ERROR_DRIVER_NOT_LOADED);
  NUMBER(NVML_ERROR_TIMEOUT);
  NUMBER(NVML_ERROR_FUNCTION_NOT_FOUND);
  NUMBER(NVML_ERROR_GPU_IS_LOST);
  NUMBER(NVML_ERROR_RESET_REQUIRED);
  NUMBER(NVML_ERROR_LIB_RM_VERSION_MISMATCH);
  NUMBER(NVML_ERROR_GPU_NOT_FOUND);
  NUMBER(NVML_FI_DEV_ECC_SBE_VOL_TOTAL);
  NUMBER(NVML_FI_DEV_ECC_DBE_VOL_TOTAL);
  NUMBER(NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL);
  NUMBER(NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL);
  NUMBER(NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL);
  NUMBER(NVML_FI_DEV_MEMORY_TEMP);
  NUMBER(NVML_FI_DEV_PCIE_REPLAY_COUNTER);
  NUMBER(NVML_FI_DEV_REMAPPED_COR);
  NUMBER(NVML_FI_DEV_REMAPPED_UNC);
  NUMBER(NVML_FI_DEV_REMAPPED_PENDING);
  NUMBER(NVML_FI_DEV_REMAPPED_FAILURE);
  NUMBER(NVML_FI_DEV_PERF_POLICY_POWER);
  NUMBER(NVML_FI_DEV_PERF_POLICY_THERMAL);
  NUMBER(NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT);
  NUMBER(NVML_FI_DEV_PERF_POLICY_RELIABILITY);
  NUMBER(NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX);
  NUMBER(NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX);
  NUMBER(NVML_FI_DEV_PCIE_COUNT_TX_BYTES);
  NUMBER(NVML_FI_DEV_PCIE_COUNT_RX_BYTES);
  NUMBER(nvmlEventTypeXidCriticalError);
  NUMBER(nvmlEventTypeDoubleBitEccError);
  NUMBER(NVML_CLOCK_SM);
  NUMBER(NVML_CLOCK_MEM);
  return 0;
}
