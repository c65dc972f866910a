// native/opencl/opencl_abi.h: what of OpenCL a layer sees: places in the loader's table of
// functions, and a few constants. Compared with Khronos' headers by native/tests/opencl/layout.cpp.
#pragma once

#include <cstddef>
#include <cstdint>

namespace pilotlight::opencl {

struct Context;
struct Device;
struct Queue;
struct Kernel;
struct Memory;
struct Event;

constexpr int kSuccess = 0;
constexpr int kInvalidValue = -30;
constexpr uint32_t kLayerApiVersion = 0x4240, kLayerName = 0x4241, kLayerVersion100 = 100;
constexpr uint64_t kProfilingEnable = 2;
constexpr uint64_t kQueueProperties = 0x1093;
constexpr uint32_t kQueueDevice = 0x1091;
constexpr uint32_t kDeviceName = 0x102B;
constexpr uint32_t kKernelFunctionName = 0x1190;
constexpr int kComplete = 0;
constexpr uint32_t kQueued = 0x1280, kSubmitted = 0x1281, kStarted = 0x1282, kEnded = 0x1283;

// Places in the table.
enum Call : uint32_t {
  kGetDeviceInfo = 3,
  kCreateQueue = 9,
  kGetQueueInfo = 12,
  kGetKernelInfo = 39,
  kWaitForEvents = 41,
  kRetainEvent = 43,
  kReleaseEvent = 44,
  kGetProfilingInfo = 45,
  kFinish = 47,
  kReadBuffer = 48,
  kWriteBuffer = 49,
  kCopyBuffer = 50,
  kReadImage = 51,
  kWriteImage = 52,
  kCopyImage = 53,
  kCopyImageToBuffer = 54,
  kCopyBufferToImage = 55,
  kMapBuffer = 56,
  kMapImage = 57,
  kUnmap = 58,
  kNdRangeKernel = 59,
  kTask = 60,
  kNativeKernel = 61,
  kSetEventCallback = 81,
  kReadBufferRect = 86,
  kWriteBufferRect = 87,
  kCopyBufferRect = 88,
  kFillBuffer = 102,
  kFillImage = 103,
  kMigrate = 104,
  kCreateQueueWithProperties = 123,
  kSvmMemcpy = 129,
  kSvmFill = 130,
  kSvmMap = 131,
  kSvmUnmap = 132,
  kMostCalls = 256,
};

using Function = void (*)();
using EventCallback = void(Event* event, int status, void* data);

}  // namespace pilotlight::opencl
