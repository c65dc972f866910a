// native/cuda/launch_apis.h: the API calls that start work or wait for it, by CUPTI's numbers.
//
// Of the runtime and of the driver, which Triton, TensorRT and cuBLAS call directly.
// tests/gpu/test_cupti_abi.py compares it with NVIDIA's headers.
#pragma once

#include <cstdint>

#include "cuda/cupti_abi.h"
#include "ring/record.h"

namespace pilotlight::cupti {

// All numbers from the first to the last.
struct LaunchApis {
  Domain domain;
  uint16_t first, last;
  ActivityKind kind;
};

// clang-format off
constexpr LaunchApis kLaunchApis[] = {
    {kDriver, 17, 17, ActivityKind::kSynchronization},    // cuCtxSynchronize
    {kDriver, 115, 117, ActivityKind::kKernel},           // cuLaunch, cuLaunchGrid(Async)
    {kDriver, 121, 121, ActivityKind::kSynchronization},  // cuEventSynchronize
    {kDriver, 126, 126, ActivityKind::kSynchronization},  // cuStreamSynchronize
    {kDriver, 216, 227, ActivityKind::kMemset},           // cuMemsetD8Async to D2D32Async
    {kDriver, 249, 254, ActivityKind::kMemset},           // cuMemsetD8_v2 to D2D32_v2
    {kDriver, 276, 293, ActivityKind::kMemcpy},           // cuMemcpyHtoD_v2 to HtoAAsync_v2
    {kDriver, 305, 306, ActivityKind::kMemcpy},           // cuMemcpy, cuMemcpyAsync
    {kDriver, 307, 307, ActivityKind::kKernel},           // cuLaunchKernel
    {kDriver, 318, 321, ActivityKind::kMemcpy},           // cuMemcpyPeer to 3DPeerAsync
    {kDriver, 397, 410, ActivityKind::kMemcpy},           // cuMemcpyHtoD_v2_ptds to 3DPeer_ptds
    {kDriver, 411, 416, ActivityKind::kMemset},           // cuMemsetD8_v2_ptds to D2D32_v2_ptds
    {kDriver, 418, 427, ActivityKind::kMemcpy},           // cuMemcpyAsync_ptsz to 3DPeerAsync_ptsz
    {kDriver, 428, 433, ActivityKind::kMemset},           // cuMemsetD8Async_ptsz to D2D32Async_ptsz
    {kDriver, 440, 440, ActivityKind::kSynchronization},  // cuStreamSynchronize_ptsz
    {kDriver, 442, 442, ActivityKind::kKernel},           // cuLaunchKernel_ptsz
    {kDriver, 477, 478, ActivityKind::kKernel},           // cuLaunchCooperativeKernel
    {kDriver, 480, 480, ActivityKind::kKernel},           // cuLaunchCooperativeKernelMultiDevice
    {kDriver, 514, 515, ActivityKind::kGraph},            // cuGraphLaunch
    {kDriver, 652, 653, ActivityKind::kKernel},           // cuLaunchKernelEx
    {kDriver, 776, 779, ActivityKind::kMemcpy},           // cuMemcpyBatchAsync, 3DBatchAsync
    {kDriver, 796, 799, ActivityKind::kMemcpy},           // the same, _v2
    {kDriver, 800, 800, ActivityKind::kSynchronization},  // cuCtxSynchronize_v2
    {kRuntime, 13, 13, ActivityKind::kKernel},             // cudaLaunch
    {kRuntime, 31, 48, ActivityKind::kMemcpy},             // cudaMemcpy to FromSymbolAsync
    {kRuntime, 49, 52, ActivityKind::kMemset},             // cudaMemset to 2DAsync
    {kRuntime, 126, 126, ActivityKind::kSynchronization},  // cudaThreadSynchronize
    {kRuntime, 131, 131, ActivityKind::kSynchronization},  // cudaStreamSynchronize
    {kRuntime, 137, 137, ActivityKind::kSynchronization},  // cudaEventSynchronize
    {kRuntime, 142, 143, ActivityKind::kMemset},           // cudaMemset3D, 3DAsync
    {kRuntime, 144, 145, ActivityKind::kMemcpy},           // cudaMemcpy3D, 3DAsync
    {kRuntime, 160, 163, ActivityKind::kMemcpy},           // cudaMemcpyPeer to 3DPeerAsync
    {kRuntime, 165, 165, ActivityKind::kSynchronization},  // cudaDeviceSynchronize
    {kRuntime, 211, 211, ActivityKind::kKernel},           // cudaLaunchKernel
    {kRuntime, 213, 214, ActivityKind::kKernel},           // cudaLaunch_ptsz, cudaLaunchKernel_ptsz
    {kRuntime, 215, 232, ActivityKind::kMemcpy},           // cudaMemcpy_ptds to FromSymbolAsync_ptsz
    {kRuntime, 233, 236, ActivityKind::kMemset},           // cudaMemset_ptds to 2DAsync_ptsz
    {kRuntime, 239, 239, ActivityKind::kSynchronization},  // cudaStreamSynchronize_ptsz
    {kRuntime, 243, 244, ActivityKind::kMemset},           // cudaMemset3D_ptds, 3DAsync_ptsz
    {kRuntime, 245, 246, ActivityKind::kMemcpy},           // cudaMemcpy3D_ptds, 3DAsync_ptsz
    {kRuntime, 249, 250, ActivityKind::kMemcpy},           // cudaMemcpy3DPeer_ptds, Async_ptsz
    {kRuntime, 269, 270, ActivityKind::kKernel},           // cudaLaunchCooperativeKernel
    {kRuntime, 272, 272, ActivityKind::kKernel},           // cudaLaunchCooperativeKernelMultiDevice
    {kRuntime, 311, 312, ActivityKind::kGraph},            // cudaGraphLaunch
    {kRuntime, 430, 431, ActivityKind::kKernel},           // cudaLaunchKernelExC
    {kRuntime, 482, 485, ActivityKind::kMemcpy},           // cudaMemcpyBatchAsync, 3DBatchAsync
    {kRuntime, 505, 506, ActivityKind::kKernel},           // __cudaLaunchKernel: <<<>>> from 13.0 on
    {kRuntime, 509, 512, ActivityKind::kMemcpy},           // cudaMemcpyBatchAsync of 13.0
    {kRuntime, 534, 534, ActivityKind::kSynchronization},  // cudaExecutionCtxSynchronize
};
// clang-format on

}  // namespace pilotlight::cupti
