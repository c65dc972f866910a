// native/tests/cupti_abi_check.cpp: our own declarations of CUPTI's interface against the real
// headers of whatever version is on the include path. Compiling it is the test.
#include <cuda.h>
#include <cupti.h>
#include <cupti_pcsampling.h>
#if CUPTI_API_VERSION >= 24
#include <cupti_pmsampling.h>
#include <cupti_profiler_host.h>
#include <cupti_profiler_target.h>
#include <cupti_range_profiler.h>
#include <cupti_target.h>
#endif

#include "cuda/cupti_abi.h"
#include "cuda/pc_sampling_abi.h"
#include "cuda/pm_sampling_abi.h"
#include "cuda/range_profiler_abi.h"
#include "cuda/record_fields_abi.h"

namespace ours = pilotlight::cupti;

#define SAME(type, field, real, real_field)                                 \
  static_assert(offsetof(ours::type, field) == offsetof(real, real_field)); \
  static_assert(sizeof(ours::type::field) == sizeof(real::real_field))

#if CUPTI_API_VERSION >= 130400
using Kernel = CUpti_ActivityKernel13;
#elif CUPTI_API_VERSION >= 130100
using Kernel = CUpti_ActivityKernel11;
#elif CUPTI_API_VERSION >= 130000
using Kernel = CUpti_ActivityKernel10;
#elif CUPTI_API_VERSION >= 22
using Kernel = CUpti_ActivityKernel9;
#else
using Kernel = CUpti_ActivityKernel8;
#endif
SAME(KernelRecord, start, Kernel, start);
SAME(KernelRecord, end, Kernel, end);
SAME(KernelRecord, completed, Kernel, completed);
SAME(KernelRecord, device, Kernel, deviceId);
SAME(KernelRecord, context, Kernel, contextId);
SAME(KernelRecord, stream, Kernel, streamId);
SAME(KernelRecord, correlation, Kernel, correlationId);
SAME(KernelRecord, name, Kernel, name);
SAME(KernelRecord, queued, Kernel, queued);
SAME(KernelRecord, submitted, Kernel, submitted);
SAME(KernelRecord, graph_node, Kernel, graphNodeId);
SAME(KernelRecord, graph, Kernel, graphId);
static_assert(offsetof(ours::KernelRecord, grid) == offsetof(Kernel, gridX));
static_assert(offsetof(ours::KernelRecord, block) == offsetof(Kernel, blockX));
static_assert(sizeof(ours::KernelRecord) <= sizeof(Kernel));

using Copy = CUpti_ActivityMemcpy5;
SAME(MemcpyRecord, copy_kind, Copy, copyKind);
SAME(MemcpyRecord, source_kind, Copy, srcKind);
SAME(MemcpyRecord, target_kind, Copy, dstKind);
SAME(MemcpyRecord, bytes, Copy, bytes);
SAME(MemcpyRecord, start, Copy, start);
SAME(MemcpyRecord, end, Copy, end);
SAME(MemcpyRecord, device, Copy, deviceId);
SAME(MemcpyRecord, context, Copy, contextId);
SAME(MemcpyRecord, stream, Copy, streamId);
SAME(MemcpyRecord, correlation, Copy, correlationId);
SAME(MemcpyRecord, graph_node, Copy, graphNodeId);
SAME(MemcpyRecord, graph, Copy, graphId);

using Peer = CUpti_ActivityMemcpyPtoP4;
SAME(MemcpyPeerRecord, bytes, Peer, bytes);
SAME(MemcpyPeerRecord, start, Peer, start);
SAME(MemcpyPeerRecord, end, Peer, end);
SAME(MemcpyPeerRecord, device, Peer, deviceId);
SAME(MemcpyPeerRecord, stream, Peer, streamId);
SAME(MemcpyPeerRecord, source_device, Peer, srcDeviceId);
SAME(MemcpyPeerRecord, target_device, Peer, dstDeviceId);
SAME(MemcpyPeerRecord, correlation, Peer, correlationId);
SAME(MemcpyPeerRecord, graph_node, Peer, graphNodeId);
SAME(MemcpyPeerRecord, graph, Peer, graphId);

using Set = CUpti_ActivityMemset4;
SAME(MemsetRecord, value, Set, value);
SAME(MemsetRecord, bytes, Set, bytes);
SAME(MemsetRecord, start, Set, start);
SAME(MemsetRecord, end, Set, end);
SAME(MemsetRecord, device, Set, deviceId);
SAME(MemsetRecord, stream, Set, streamId);
SAME(MemsetRecord, correlation, Set, correlationId);
SAME(MemsetRecord, graph_node, Set, graphNodeId);
SAME(MemsetRecord, graph, Set, graphId);

using Wait = CUpti_ActivitySynchronization;
SAME(SynchronizationRecord, type, Wait, type);
SAME(SynchronizationRecord, start, Wait, start);
SAME(SynchronizationRecord, end, Wait, end);
SAME(SynchronizationRecord, correlation, Wait, correlationId);
SAME(SynchronizationRecord, context, Wait, contextId);
SAME(SynchronizationRecord, stream, Wait, streamId);

using Graph = CUpti_ActivityGraphTrace;
SAME(GraphTraceRecord, correlation, Graph, correlationId);
SAME(GraphTraceRecord, start, Graph, start);
SAME(GraphTraceRecord, end, Graph, end);
SAME(GraphTraceRecord, device, Graph, deviceId);
SAME(GraphTraceRecord, graph, Graph, graphId);
SAME(GraphTraceRecord, context, Graph, contextId);
SAME(GraphTraceRecord, stream, Graph, streamId);

using Overhead = CUpti_ActivityOverhead;
SAME(OverheadRecord, overhead, Overhead, overheadKind);
SAME(OverheadRecord, object, Overhead, objectKind);
SAME(OverheadRecord, start, Overhead, start);
SAME(OverheadRecord, end, Overhead, end);

using Memory = CUpti_ActivityMemory3;
SAME(MemoryRecord, operation, Memory, memoryOperationType);
SAME(MemoryRecord, correlation, Memory, correlationId);
SAME(MemoryRecord, address, Memory, address);
SAME(MemoryRecord, bytes, Memory, bytes);
SAME(MemoryRecord, time, Memory, timestamp);
SAME(MemoryRecord, device, Memory, deviceId);
SAME(MemoryRecord, context, Memory, contextId);
SAME(MemoryRecord, stream, Memory, streamId);

using External = CUpti_ActivityExternalCorrelation;
SAME(ExternalRecord, external_kind, External, externalKind);
SAME(ExternalRecord, external_id, External, externalId);
SAME(ExternalRecord, correlation, External, correlationId);
static_assert(sizeof(ours::ExternalRecord) == sizeof(External));
static_assert(int(ours::kExternalCorrelation) == CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
static_assert(int(ours::kDriverApi) == CUPTI_ACTIVITY_KIND_DRIVER);
static_assert(int(ours::kRuntimeApi) == CUPTI_ACTIVITY_KIND_RUNTIME);
static_assert(int(ours::kQueueEmpty) == CUPTI_ERROR_QUEUE_EMPTY);

SAME(CallbackData, site, CUpti_CallbackData, callbackSite);
SAME(CallbackData, function, CUpti_CallbackData, functionName);
SAME(CallbackData, symbol, CUpti_CallbackData, symbolName);
SAME(CallbackData, correlation_data, CUpti_CallbackData, correlationData);
SAME(CallbackData, correlation, CUpti_CallbackData, correlationId);
static_assert(sizeof(ours::CallbackData) == sizeof(CUpti_CallbackData));
SAME(ResourceData, descriptor, CUpti_ResourceData, resourceDescriptor);
SAME(GraphData, node, CUpti_GraphData, node);
SAME(GraphData, original_node, CUpti_GraphData, originalNode);
static_assert(sizeof(ours::GraphData) == sizeof(CUpti_GraphData));

static_assert(int(ours::kMemcpy) == CUPTI_ACTIVITY_KIND_MEMCPY);
static_assert(int(ours::kMemcpyPeer) == CUPTI_ACTIVITY_KIND_MEMCPY2);
static_assert(int(ours::kMemset) == CUPTI_ACTIVITY_KIND_MEMSET);
static_assert(int(ours::kConcurrentKernel) == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
static_assert(int(ours::kOverhead) == CUPTI_ACTIVITY_KIND_OVERHEAD);
static_assert(int(ours::kSynchronization) == CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
static_assert(int(ours::kMemory2) == CUPTI_ACTIVITY_KIND_MEMORY2);
static_assert(int(ours::kGraphTrace) == CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
#if CUPTI_API_VERSION >= 130300
static_assert(int(ours::kHardwareEvents) == CUPTI_ACTIVITY_ATTR_ENABLE_HES);
#endif
#if CUPTI_API_VERSION >= 22
static_assert(int(ours::kPerThreadBuffer) == CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER);
#endif
static_assert(int(ours::kZeroedOutBuffer) == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
static_assert(int(ours::kFlushForced) == CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
static_assert(int(ours::kGraphNodeCreated) == CUPTI_CBID_RESOURCE_GRAPHNODE_CREATED);
static_assert(int(ours::kGraphNodeCloned) == CUPTI_CBID_RESOURCE_GRAPHNODE_CLONED);
static_assert(int(ours::kModuleLoaded) == CUPTI_CBID_RESOURCE_MODULE_LOADED);
static_assert(int(ours::kModuleUnloadStarting) == CUPTI_CBID_RESOURCE_MODULE_UNLOAD_STARTING);
static_assert(int(ours::kMultipleSubscribers) == CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
static_assert(int(ours::kInsufficientPrivileges) == CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
static_assert(int(ours::kOutOfMemory) == CUPTI_ERROR_OUT_OF_MEMORY);
static_assert(int(ours::kContextDestroyStarting) == CUPTI_CBID_RESOURCE_CONTEXT_DESTROY_STARTING);
static_assert(int(ours::kMaxLimitReached) == CUPTI_ERROR_MAX_LIMIT_REACHED);
static_assert(int(ours::kDriver) == CUPTI_CB_DOMAIN_DRIVER_API);
static_assert(int(ours::kRuntime) == CUPTI_CB_DOMAIN_RUNTIME_API);
static_assert(int(ours::kResource) == CUPTI_CB_DOMAIN_RESOURCE);

// The calls that launches.cpp listens to, by number.
static_assert(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel == 307);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuLaunchKernelEx == 652);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuLaunchCooperativeKernel == 477);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch == 514);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuMemcpyAsync == 306);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2 == 277);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2 == 279);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2 == 281);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async == 216);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize == 126);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuCtxSynchronize == 17);
static_assert(CUPTI_DRIVER_TRACE_CBID_cuEventSynchronize == 121);
static_assert(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000 == 211);
static_assert(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernelExC_v11060 == 430);
static_assert(CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000 == 311);
static_assert(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020 == 41);
static_assert(CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020 == 51);
static_assert(CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020 == 131);
static_assert(CUPTI_RUNTIME_TRACE_CBID_cudaDeviceSynchronize_v3020 == 165);

SAME(PcRecord, struct_bytes, CUpti_PCSamplingPCData, size);
SAME(PcRecord, cubin_crc, CUpti_PCSamplingPCData, cubinCrc);
SAME(PcRecord, offset, CUpti_PCSamplingPCData, pcOffset);
SAME(PcRecord, function, CUpti_PCSamplingPCData, functionName);
SAME(PcRecord, reasons, CUpti_PCSamplingPCData, stallReasonCount);
SAME(PcRecord, stalls, CUpti_PCSamplingPCData, stallReason);
static_assert(ours::pc_record_bytes(CUPTI_API_VERSION) == sizeof(CUpti_PCSamplingPCData));
SAME(StallSamples, reason, CUpti_PCSamplingStallReason, pcSamplingStallReasonIndex);
SAME(StallSamples, samples, CUpti_PCSamplingStallReason, samples);
static_assert(sizeof(ours::StallSamples) == sizeof(CUpti_PCSamplingStallReason));
SAME(PcData, most_records, CUpti_PCSamplingData, collectNumPcs);
SAME(PcData, total_samples, CUpti_PCSamplingData, totalSamples);
SAME(PcData, dropped_samples, CUpti_PCSamplingData, droppedSamples);
SAME(PcData, records, CUpti_PCSamplingData, totalNumPcs);
SAME(PcData, left, CUpti_PCSamplingData, remainingNumPcs);
SAME(PcData, first, CUpti_PCSamplingData, pPcData);
SAME(PcData, other_samples, CUpti_PCSamplingData, nonUsrKernelsTotalSamples);
static_assert(ours::pc_data_bytes(CUPTI_API_VERSION) == sizeof(CUpti_PCSamplingData));
SAME(PcSetting, attribute, CUpti_PCSamplingConfigurationInfo, attributeType);
SAME(PcSetting, status, CUpti_PCSamplingConfigurationInfo, attributeStatus);
SAME(PcSetting, value, CUpti_PCSamplingConfigurationInfo, attributeData);
static_assert(sizeof(ours::PcSetting) == sizeof(CUpti_PCSamplingConfigurationInfo));
SAME(PcConfigureParams, count, CUpti_PCSamplingConfigurationInfoParams, numAttributes);
SAME(PcGetDataParams, data, CUpti_PCSamplingGetDataParams, pcSamplingData);
SAME(PcCountReasonsParams, count, CUpti_PCSamplingGetNumStallReasonsParams, numStallReasons);
SAME(PcGetReasonsParams, indices, CUpti_PCSamplingGetStallReasonsParams, stallReasonIndex);
SAME(PcGetReasonsParams, names, CUpti_PCSamplingGetStallReasonsParams, stallReasons);
static_assert(sizeof(ours::PcConfigureParams) == CUpti_PCSamplingConfigurationInfoParamsSize);
static_assert(sizeof(ours::PcContextParams) == CUpti_PCSamplingEnableParamsSize);
static_assert(sizeof(ours::PcContextParams) == CUpti_PCSamplingStartParamsSize);
static_assert(sizeof(ours::PcGetDataParams) == CUpti_PCSamplingGetDataParamsSize);
static_assert(sizeof(ours::PcCountReasonsParams) == CUpti_PCSamplingGetNumStallReasonsParamsSize);
static_assert(sizeof(ours::PcGetReasonsParams) == CUpti_PCSamplingGetStallReasonsParamsSize);
static_assert(ours::kStallReasonNameBytes == CUPTI_STALL_REASON_STRING_SIZE);
static_assert(int(ours::kPcContinuous) == CUPTI_PC_SAMPLING_COLLECTION_MODE_CONTINUOUS);
#define PC_ATTRIBUTE(name) CUPTI_PC_SAMPLING_CONFIGURATION_ATTR_TYPE_##name
static_assert(int(ours::kPcStallReasons) == PC_ATTRIBUTE(STALL_REASON));
static_assert(int(ours::kPcHardwareBufferBytes) == PC_ATTRIBUTE(HARDWARE_BUFFER_SIZE));
static_assert(int(ours::kPcCollectionMode) == PC_ATTRIBUTE(COLLECTION_MODE));
static_assert(int(ours::kPcStartStopControl) == PC_ATTRIBUTE(ENABLE_START_STOP_CONTROL));
static_assert(int(ours::kPcDataBuffer) == PC_ATTRIBUTE(SAMPLING_DATA_BUFFER));

#if CUPTI_API_VERSION >= 130300
static_assert(sizeof(ours::SubscriberParams) == CUpti_SubscriberParams_STRUCT_SIZE);
SAME(SubscriberParams, allow_multiple, CUpti_SubscriberParams, allowMultipleSubscribers);
SAME(SubscriberParams, old_name, CUpti_SubscriberParams, oldSubscriberName);
#endif

#if CUPTI_API_VERSION >= 24
static_assert(sizeof(ours::ProfilerParams) == CUpti_Profiler_Initialize_Params_STRUCT_SIZE);
static_assert(sizeof(ours::ProfilerParams) == CUpti_Profiler_DeInitialize_Params_STRUCT_SIZE);
static_assert(sizeof(ours::ChipNameParams) == CUpti_Device_GetChipName_Params_STRUCT_SIZE);
SAME(ChipNameParams, device, CUpti_Device_GetChipName_Params, deviceIndex);
SAME(ChipNameParams, name, CUpti_Device_GetChipName_Params, pChipName);
static_assert(int(ours::ProfilerType::kRange) == CUPTI_PROFILER_TYPE_RANGE_PROFILER);
static_assert(int(ours::ProfilerType::kPmSampling) == CUPTI_PROFILER_TYPE_PM_SAMPLING);
static_assert(ours::host_initialize_bytes(CUPTI_API_VERSION) ==
              CUpti_Profiler_Host_Initialize_Params_STRUCT_SIZE);
SAME(HostInitializeParams, type, CUpti_Profiler_Host_Initialize_Params, profilerType);
SAME(HostInitializeParams, chip, CUpti_Profiler_Host_Initialize_Params, pChipName);
SAME(HostInitializeParams, availability, CUpti_Profiler_Host_Initialize_Params,
     pCounterAvailabilityImage);
SAME(HostInitializeParams, host, CUpti_Profiler_Host_Initialize_Params, pHostObject);
static_assert(sizeof(ours::HostParams) == CUpti_Profiler_Host_Deinitialize_Params_STRUCT_SIZE);
static_assert(sizeof(ours::HostAddMetricsParams) ==
              CUpti_Profiler_Host_ConfigAddMetrics_Params_STRUCT_SIZE);
SAME(HostAddMetricsParams, names, CUpti_Profiler_Host_ConfigAddMetrics_Params, ppMetricNames);
SAME(HostAddMetricsParams, count, CUpti_Profiler_Host_ConfigAddMetrics_Params, numMetrics);
static_assert(sizeof(ours::HostConfigSizeParams) ==
              CUpti_Profiler_Host_GetConfigImageSize_Params_STRUCT_SIZE);
SAME(HostConfigSizeParams, bytes, CUpti_Profiler_Host_GetConfigImageSize_Params, configImageSize);
static_assert(sizeof(ours::HostConfigParams) ==
              CUpti_Profiler_Host_GetConfigImage_Params_STRUCT_SIZE);
SAME(HostConfigParams, bytes, CUpti_Profiler_Host_GetConfigImage_Params, configImageSize);
SAME(HostConfigParams, config, CUpti_Profiler_Host_GetConfigImage_Params, pConfigImage);
static_assert(sizeof(ours::HostPassesParams) ==
              CUpti_Profiler_Host_GetNumOfPasses_Params_STRUCT_SIZE);
SAME(HostPassesParams, config, CUpti_Profiler_Host_GetNumOfPasses_Params, pConfigImage);
SAME(HostPassesParams, passes, CUpti_Profiler_Host_GetNumOfPasses_Params, numOfPasses);
static_assert(sizeof(ours::HostEvaluateParams) ==
              CUpti_Profiler_Host_EvaluateToGpuValues_Params_STRUCT_SIZE);
SAME(HostEvaluateParams, image, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pCounterDataImage);
SAME(HostEvaluateParams, index, CUpti_Profiler_Host_EvaluateToGpuValues_Params, rangeIndex);
SAME(HostEvaluateParams, names, CUpti_Profiler_Host_EvaluateToGpuValues_Params, ppMetricNames);
SAME(HostEvaluateParams, count, CUpti_Profiler_Host_EvaluateToGpuValues_Params, numMetrics);
SAME(HostEvaluateParams, values, CUpti_Profiler_Host_EvaluateToGpuValues_Params, pMetricValues);

static_assert(sizeof(ours::PmEnableParams) == CUpti_PmSampling_Enable_Params_STRUCT_SIZE);
SAME(PmEnableParams, device, CUpti_PmSampling_Enable_Params, deviceIndex);
SAME(PmEnableParams, sampler, CUpti_PmSampling_Enable_Params, pPmSamplingObject);
static_assert(sizeof(ours::PmParams) == CUpti_PmSampling_Disable_Params_STRUCT_SIZE);
static_assert(sizeof(ours::PmParams) == CUpti_PmSampling_Start_Params_STRUCT_SIZE);
static_assert(sizeof(ours::PmParams) == CUpti_PmSampling_Stop_Params_STRUCT_SIZE);
static_assert(ours::pm_configure_bytes(CUPTI_API_VERSION) ==
              CUpti_PmSampling_SetConfig_Params_STRUCT_SIZE);
SAME(PmConfigureParams, config_bytes, CUpti_PmSampling_SetConfig_Params, configSize);
SAME(PmConfigureParams, config, CUpti_PmSampling_SetConfig_Params, pConfig);
SAME(PmConfigureParams, hardware_buffer_bytes, CUpti_PmSampling_SetConfig_Params,
     hardwareBufferSize);
SAME(PmConfigureParams, interval, CUpti_PmSampling_SetConfig_Params, samplingInterval);
SAME(PmConfigureParams, trigger, CUpti_PmSampling_SetConfig_Params, triggerMode);
static_assert(int(ours::PmTrigger::kCycles) == CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_SYSCLK_INTERVAL);
static_assert(int(ours::PmTrigger::kNanoseconds) ==
              CUPTI_PM_SAMPLING_TRIGGER_MODE_GPU_TIME_INTERVAL);
#if CUPTI_API_VERSION >= 25
SAME(PmConfigureParams, append_mode, CUpti_PmSampling_SetConfig_Params, hwBufferAppendMode);
static_assert(int(ours::kPmKeepOldest) ==
              CUPTI_PM_SAMPLING_HARDWARE_BUFFER_APPEND_MODE_KEEP_OLDEST);
#endif
static_assert(ours::kPmDecodeBytes == CUpti_PmSampling_DecodeData_Params_STRUCT_SIZE);
SAME(PmDecodeParams, image, CUpti_PmSampling_DecodeData_Params, pCounterDataImage);
SAME(PmDecodeParams, stop, CUpti_PmSampling_DecodeData_Params, decodeStopReason);
SAME(PmDecodeParams, overflow, CUpti_PmSampling_DecodeData_Params, overflow);
static_assert(int(ours::PmDecodeStop::kImageFull) ==
              CUPTI_PM_SAMPLING_DECODE_STOP_REASON_COUNTER_DATA_FULL);
static_assert(int(ours::PmDecodeStop::kEndOfRecords) ==
              CUPTI_PM_SAMPLING_DECODE_STOP_REASON_END_OF_RECORDS);
static_assert(sizeof(ours::PmAvailabilityParams) ==
              CUpti_PmSampling_GetCounterAvailability_Params_STRUCT_SIZE);
SAME(PmAvailabilityParams, bytes, CUpti_PmSampling_GetCounterAvailability_Params,
     counterAvailabilityImageSize);
static_assert(sizeof(ours::PmImageSizeParams) ==
              CUpti_PmSampling_GetCounterDataSize_Params_STRUCT_SIZE);
SAME(PmImageSizeParams, names, CUpti_PmSampling_GetCounterDataSize_Params, pMetricNames);
SAME(PmImageSizeParams, count, CUpti_PmSampling_GetCounterDataSize_Params, numMetrics);
SAME(PmImageSizeParams, most_samples, CUpti_PmSampling_GetCounterDataSize_Params, maxSamples);
SAME(PmImageSizeParams, bytes, CUpti_PmSampling_GetCounterDataSize_Params, counterDataSize);
static_assert(sizeof(ours::PmImageInitializeParams) ==
              CUpti_PmSampling_CounterDataImage_Initialize_Params_STRUCT_SIZE);
SAME(PmImageInitializeParams, image, CUpti_PmSampling_CounterDataImage_Initialize_Params,
     pCounterData);
static_assert(sizeof(ours::PmImageInfoParams) ==
              CUpti_PmSampling_GetCounterDataInfo_Params_STRUCT_SIZE);
SAME(PmImageInfoParams, completed, CUpti_PmSampling_GetCounterDataInfo_Params, numCompletedSamples);
static_assert(sizeof(ours::PmSampleInfoParams) ==
              CUpti_PmSampling_CounterData_GetSampleInfo_Params_STRUCT_SIZE);
SAME(PmSampleInfoParams, index, CUpti_PmSampling_CounterData_GetSampleInfo_Params, sampleIndex);
SAME(PmSampleInfoParams, start, CUpti_PmSampling_CounterData_GetSampleInfo_Params, startTimestamp);
SAME(PmSampleInfoParams, end, CUpti_PmSampling_CounterData_GetSampleInfo_Params, endTimestamp);

static_assert(ours::range_enable_bytes(CUPTI_API_VERSION) ==
              CUpti_RangeProfiler_Enable_Params_STRUCT_SIZE);
SAME(RangeEnableParams, context, CUpti_RangeProfiler_Enable_Params, ctx);
SAME(RangeEnableParams, profiler, CUpti_RangeProfiler_Enable_Params, pRangeProfilerObject);
static_assert(sizeof(ours::RangeParams) == CUpti_RangeProfiler_Disable_Params_STRUCT_SIZE);
static_assert(sizeof(ours::RangeParams) == CUpti_RangeProfiler_Start_Params_STRUCT_SIZE);
static_assert(ours::kRangeConfigureBytes == CUpti_RangeProfiler_SetConfig_Params_STRUCT_SIZE);
SAME(RangeConfigureParams, config_bytes, CUpti_RangeProfiler_SetConfig_Params, configSize);
SAME(RangeConfigureParams, config, CUpti_RangeProfiler_SetConfig_Params, pConfig);
SAME(RangeConfigureParams, image_bytes, CUpti_RangeProfiler_SetConfig_Params, counterDataImageSize);
SAME(RangeConfigureParams, image, CUpti_RangeProfiler_SetConfig_Params, pCounterDataImage);
SAME(RangeConfigureParams, range, CUpti_RangeProfiler_SetConfig_Params, range);
SAME(RangeConfigureParams, replay, CUpti_RangeProfiler_SetConfig_Params, replayMode);
SAME(RangeConfigureParams, most_ranges, CUpti_RangeProfiler_SetConfig_Params, maxRangesPerPass);
SAME(RangeConfigureParams, nesting_levels, CUpti_RangeProfiler_SetConfig_Params, numNestingLevels);
SAME(RangeConfigureParams, least_nesting_level, CUpti_RangeProfiler_SetConfig_Params,
     minNestingLevel);
SAME(RangeConfigureParams, pass, CUpti_RangeProfiler_SetConfig_Params, passIndex);
SAME(RangeConfigureParams, target_nesting_level, CUpti_RangeProfiler_SetConfig_Params,
     targetNestingLevel);
static_assert(int(ours::RangeMode::kEachKernel) == CUPTI_AutoRange);
static_assert(int(ours::ReplayMode::kKernel) == CUPTI_KernelReplay);
static_assert(ours::kRangeStopBytes == CUpti_RangeProfiler_Stop_Params_STRUCT_SIZE);
SAME(RangeStopParams, is_complete, CUpti_RangeProfiler_Stop_Params, isAllPassSubmitted);
static_assert(sizeof(ours::RangeDecodeParams) == CUpti_RangeProfiler_DecodeData_Params_STRUCT_SIZE);
SAME(RangeDecodeParams, dropped, CUpti_RangeProfiler_DecodeData_Params, numOfRangeDropped);
static_assert(sizeof(ours::RangeImageSizeParams) ==
              CUpti_RangeProfiler_GetCounterDataSize_Params_STRUCT_SIZE);
SAME(RangeImageSizeParams, names, CUpti_RangeProfiler_GetCounterDataSize_Params, pMetricNames);
SAME(RangeImageSizeParams, count, CUpti_RangeProfiler_GetCounterDataSize_Params, numMetrics);
SAME(RangeImageSizeParams, most_ranges, CUpti_RangeProfiler_GetCounterDataSize_Params,
     maxNumOfRanges);
SAME(RangeImageSizeParams, most_nodes, CUpti_RangeProfiler_GetCounterDataSize_Params,
     maxNumRangeTreeNodes);
SAME(RangeImageSizeParams, bytes, CUpti_RangeProfiler_GetCounterDataSize_Params, counterDataSize);
static_assert(sizeof(ours::RangeImageInitializeParams) ==
              CUpti_RangeProfiler_CounterDataImage_Initialize_Params_STRUCT_SIZE);
SAME(RangeImageInitializeParams, image, CUpti_RangeProfiler_CounterDataImage_Initialize_Params,
     pCounterData);
static_assert(sizeof(ours::RangeImageInfoParams) ==
              CUpti_RangeProfiler_GetCounterDataInfo_Params_STRUCT_SIZE);
SAME(RangeImageInfoParams, total, CUpti_RangeProfiler_GetCounterDataInfo_Params, numTotalRanges);
static_assert(ours::context_availability_bytes(CUPTI_API_VERSION) ==
              CUpti_Profiler_GetCounterAvailability_Params_STRUCT_SIZE);
SAME(ContextAvailabilityParams, context, CUpti_Profiler_GetCounterAvailability_Params, ctx);
SAME(ContextAvailabilityParams, bytes, CUpti_Profiler_GetCounterAvailability_Params,
     counterAvailabilityImageSize);
#if CUPTI_API_VERSION >= 130100
SAME(ContextAvailabilityParams, with_device_counters, CUpti_Profiler_GetCounterAvailability_Params,
     bAllowDeviceLevelCounters);
#endif
#endif
#if CUPTI_API_VERSION >= 130000
static_assert(int(ours::kInvalidChip) == CUPTI_ERROR_INVALID_CHIP_NAME);
#endif
static_assert(int(ours::kHardwareBusy) == CUPTI_ERROR_HARDWARE_BUSY);

#if CUPTI_API_VERSION >= 130300
static_assert(int(ours::kUserDefinedRecords) == CUPTI_ACTIVITY_ATTR_USER_DEFINED_RECORDS);
static_assert(int(ours::kHardwareEvents) == CUPTI_ACTIVITY_ATTR_ENABLE_HES);
static_assert(int(ours::kWholeGraphs) == CUPTI_ACTIVITY_ATTR_ENABLE_MULTI_SUBSCRIBER_GRAPH_TRACE);
static_assert(sizeof(ours::ActivityConfig) <= sizeof(CUpti_ActivityConfig));
SAME(ActivityConfig, selection, CUpti_ActivityConfig, fieldSelection);
static_assert(sizeof(ours::FieldSelection) == sizeof(CUpti_ActivityFieldSelection));
SAME(FieldSelection, count, CUpti_ActivityFieldSelection, numFields);
SAME(FieldSelection, fields, CUpti_ActivityFieldSelection, pFieldIds);
static_assert(sizeof(ours::FieldPlace) == sizeof(CUpti_ActivityFieldLayoutEntry));
SAME(FieldPlace, field, CUpti_ActivityFieldLayoutEntry, fieldId);
SAME(FieldPlace, offset, CUpti_ActivityFieldLayoutEntry, offset);
SAME(FieldPlace, bytes, CUpti_ActivityFieldLayoutEntry, size);
static_assert(sizeof(ours::RecordLayout) == sizeof(CUpti_ActivityRecordLayout));
SAME(RecordLayout, places, CUpti_ActivityRecordLayout, pEntries);
SAME(RecordLayout, count, CUpti_ActivityRecordLayout, numFields);
SAME(RecordLayout, record_bytes, CUpti_ActivityRecordLayout, recordSize);
static_assert(sizeof(ours::CompleteInfo) == sizeof(CUpti_BufferCallbackCompleteInfo));
SAME(CompleteInfo, layouts, CUpti_BufferCallbackCompleteInfo, ppRecordLayouts);
SAME(CompleteInfo, layout_count, CUpti_BufferCallbackCompleteInfo, numRecordLayouts);

#define NUMBER(ours_field, real) static_assert(int(ours::ours_field) == int(real))
NUMBER(kernel_field::kKind, KERNEL_FIELD_KIND);
NUMBER(kernel_field::kStart, KERNEL_FIELD_START);
NUMBER(kernel_field::kEnd, KERNEL_FIELD_END);
NUMBER(kernel_field::kDevice, KERNEL_FIELD_DEVICE_ID);
NUMBER(kernel_field::kContext, KERNEL_FIELD_CONTEXT_ID);
NUMBER(kernel_field::kStream, KERNEL_FIELD_STREAM_ID);
NUMBER(kernel_field::kCorrelation, KERNEL_FIELD_CORRELATION_ID);
NUMBER(kernel_field::kName, KERNEL_FIELD_NAME);
NUMBER(kernel_field::kGraphNode, KERNEL_FIELD_GRAPH_NODE_ID);
NUMBER(kernel_field::kGraph, KERNEL_FIELD_GRAPH_ID);
NUMBER(copy_field::kKind, MEMCPY_FIELD_KIND);
NUMBER(copy_field::kCopyKind, MEMCPY_FIELD_COPY_KIND);
NUMBER(copy_field::kSourceKind, MEMCPY_FIELD_SRC_KIND);
NUMBER(copy_field::kTargetKind, MEMCPY_FIELD_DST_KIND);
NUMBER(copy_field::kBytes, MEMCPY_FIELD_BYTES);
NUMBER(copy_field::kStart, MEMCPY_FIELD_START);
NUMBER(copy_field::kEnd, MEMCPY_FIELD_END);
NUMBER(copy_field::kDevice, MEMCPY_FIELD_DEVICE_ID);
NUMBER(copy_field::kStream, MEMCPY_FIELD_STREAM_ID);
NUMBER(copy_field::kCorrelation, MEMCPY_FIELD_CORRELATION_ID);
NUMBER(copy_field::kGraphNode, MEMCPY_FIELD_GRAPH_NODE_ID);
NUMBER(copy_field::kGraph, MEMCPY_FIELD_GRAPH_ID);
NUMBER(copy_field::kKind, MEMCPY2_FIELD_KIND);
NUMBER(copy_field::kCopyKind, MEMCPY2_FIELD_COPY_KIND);
NUMBER(copy_field::kSourceKind, MEMCPY2_FIELD_SRC_KIND);
NUMBER(copy_field::kTargetKind, MEMCPY2_FIELD_DST_KIND);
NUMBER(copy_field::kBytes, MEMCPY2_FIELD_BYTES);
NUMBER(copy_field::kStart, MEMCPY2_FIELD_START);
NUMBER(copy_field::kEnd, MEMCPY2_FIELD_END);
NUMBER(copy_field::kDevice, MEMCPY2_FIELD_DEVICE_ID);
NUMBER(copy_field::kStream, MEMCPY2_FIELD_STREAM_ID);
NUMBER(peer_field::kCorrelation, MEMCPY2_FIELD_CORRELATION_ID);
NUMBER(peer_field::kGraphNode, MEMCPY2_FIELD_GRAPH_NODE_ID);
NUMBER(peer_field::kGraph, MEMCPY2_FIELD_GRAPH_ID);
NUMBER(set_field::kKind, MEMSET_FIELD_KIND);
NUMBER(set_field::kBytes, MEMSET_FIELD_BYTES);
NUMBER(set_field::kStart, MEMSET_FIELD_START);
NUMBER(set_field::kEnd, MEMSET_FIELD_END);
NUMBER(set_field::kDevice, MEMSET_FIELD_DEVICE_ID);
NUMBER(set_field::kStream, MEMSET_FIELD_STREAM_ID);
NUMBER(set_field::kCorrelation, MEMSET_FIELD_CORRELATION_ID);
NUMBER(set_field::kGraphNode, MEMSET_FIELD_GRAPH_NODE_ID);
NUMBER(set_field::kGraph, MEMSET_FIELD_GRAPH_ID);
NUMBER(wait_field::kKind, SYNCHRONIZATION_FIELD_KIND);
NUMBER(wait_field::kType, SYNCHRONIZATION_FIELD_TYPE);
NUMBER(wait_field::kStart, SYNCHRONIZATION_FIELD_START);
NUMBER(wait_field::kEnd, SYNCHRONIZATION_FIELD_END);
NUMBER(wait_field::kCorrelation, SYNCHRONIZATION_FIELD_CORRELATION_ID);
NUMBER(wait_field::kContext, SYNCHRONIZATION_FIELD_CONTEXT_ID);
NUMBER(wait_field::kStream, SYNCHRONIZATION_FIELD_STREAM_ID);
NUMBER(graph_field::kKind, GRAPH_TRACE_FIELD_KIND);
NUMBER(graph_field::kCorrelation, GRAPH_TRACE_FIELD_CORRELATION_ID);
NUMBER(graph_field::kStart, GRAPH_TRACE_FIELD_START);
NUMBER(graph_field::kEnd, GRAPH_TRACE_FIELD_END);
NUMBER(graph_field::kDevice, GRAPH_TRACE_FIELD_DEVICE_ID);
NUMBER(graph_field::kGraph, GRAPH_TRACE_FIELD_GRAPH_ID);
NUMBER(graph_field::kStream, GRAPH_TRACE_FIELD_STREAM_ID);
NUMBER(overhead_field::kKind, OVERHEAD_FIELD_KIND);
NUMBER(overhead_field::kOverhead, OVERHEAD_FIELD_OVERHEAD_KIND);
NUMBER(overhead_field::kStart, OVERHEAD_FIELD_START);
NUMBER(overhead_field::kEnd, OVERHEAD_FIELD_END);
NUMBER(memory_field::kKind, MEMORY_FIELD_KIND);
NUMBER(memory_field::kOperation, MEMORY_FIELD_OPERATION_TYPE);
NUMBER(memory_field::kCorrelation, MEMORY_FIELD_CORRELATION_ID);
NUMBER(memory_field::kBytes, MEMORY_FIELD_BYTES);
NUMBER(memory_field::kTime, MEMORY_FIELD_TIMESTAMP);
NUMBER(memory_field::kDevice, MEMORY_FIELD_DEVICE_ID);
#undef NUMBER
#endif
