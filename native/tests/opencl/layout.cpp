// Fails to compile where our idea of OpenCL's table of functions differs from Khronos' headers.
#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>
#include <CL/cl_icd.h>
#include <CL/cl_layer.h>

#include <cstddef>

#include "opencl/opencl_abi.h"

namespace ours = pilotlight::opencl;

#define PLACE(mine, theirs) \
  static_assert(offsetof(cl_icd_dispatch, theirs) == size_t{ours::mine} * sizeof(void*))
PLACE(kGetDeviceInfo, clGetDeviceInfo);
PLACE(kCreateQueue, clCreateCommandQueue);
PLACE(kGetQueueInfo, clGetCommandQueueInfo);
PLACE(kGetKernelInfo, clGetKernelInfo);
PLACE(kWaitForEvents, clWaitForEvents);
PLACE(kRetainEvent, clRetainEvent);
PLACE(kReleaseEvent, clReleaseEvent);
PLACE(kGetProfilingInfo, clGetEventProfilingInfo);
PLACE(kFinish, clFinish);
PLACE(kReadBuffer, clEnqueueReadBuffer);
PLACE(kWriteBuffer, clEnqueueWriteBuffer);
PLACE(kCopyBuffer, clEnqueueCopyBuffer);
PLACE(kReadImage, clEnqueueReadImage);
PLACE(kWriteImage, clEnqueueWriteImage);
PLACE(kCopyImage, clEnqueueCopyImage);
PLACE(kCopyImageToBuffer, clEnqueueCopyImageToBuffer);
PLACE(kCopyBufferToImage, clEnqueueCopyBufferToImage);
PLACE(kMapBuffer, clEnqueueMapBuffer);
PLACE(kMapImage, clEnqueueMapImage);
PLACE(kUnmap, clEnqueueUnmapMemObject);
PLACE(kNdRangeKernel, clEnqueueNDRangeKernel);
PLACE(kTask, clEnqueueTask);
PLACE(kNativeKernel, clEnqueueNativeKernel);
PLACE(kSetEventCallback, clSetEventCallback);
PLACE(kReadBufferRect, clEnqueueReadBufferRect);
PLACE(kWriteBufferRect, clEnqueueWriteBufferRect);
PLACE(kCopyBufferRect, clEnqueueCopyBufferRect);
PLACE(kFillBuffer, clEnqueueFillBuffer);
PLACE(kFillImage, clEnqueueFillImage);
PLACE(kMigrate, clEnqueueMigrateMemObjects);
PLACE(kCreateQueueWithProperties, clCreateCommandQueueWithProperties);
PLACE(kSvmMemcpy, clEnqueueSVMMemcpy);
PLACE(kSvmFill, clEnqueueSVMMemFill);
PLACE(kSvmMap, clEnqueueSVMMap);
PLACE(kSvmUnmap, clEnqueueSVMUnmap);
static_assert(sizeof(cl_icd_dispatch) / sizeof(void*) <= ours::kMostCalls);
static_assert(ours::kLayerApiVersion == CL_LAYER_API_VERSION && ours::kLayerName == CL_LAYER_NAME);
static_assert(ours::kProfilingEnable == CL_QUEUE_PROFILING_ENABLE);
static_assert(ours::kQueueProperties == CL_QUEUE_PROPERTIES);
static_assert(ours::kQueueDevice == CL_QUEUE_DEVICE && ours::kDeviceName == CL_DEVICE_NAME);
static_assert(ours::kKernelFunctionName == CL_KERNEL_FUNCTION_NAME);
static_assert(ours::kQueued == CL_PROFILING_COMMAND_QUEUED &&
              ours::kSubmitted == CL_PROFILING_COMMAND_SUBMIT &&
              ours::kStarted == CL_PROFILING_COMMAND_START &&
              ours::kEnded == CL_PROFILING_COMMAND_END);
static_assert(ours::kComplete == CL_COMPLETE && ours::kInvalidValue == CL_INVALID_VALUE);

int main() {}
