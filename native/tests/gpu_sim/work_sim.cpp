// native/tests/gpu_sim/work_sim.cpp: what is submitted to the simulated device, and when it runs.
//
// The timing model: a kernel takes grid x block nanoseconds; a stream does one thing after the
// other; kernels of different streams overlap; each device has a copy engine a direction, 25 GB/s.
// Everything is computed at submission, so that a wait is a sleep and nothing else runs.
#include "cuda_sim.h"

namespace gpu_sim {
namespace {

constexpr uint64_t kLatencyNs = 3000;
constexpr uint64_t kDeepestQueueNs = 200000000;
constexpr double kCopyBytesPerNs = 25;

double speed() {
  static const double value = number_in("PILOTLIGHT_SIM_SPEED", 1);
  return value;
}

uint64_t lost_after() {
  static const auto value = static_cast<uint64_t>(number_in("PILOTLIGHT_SIM_LOST_AFTER", 0));
  return value;
}

}  // namespace

void tell_work(const Work& work) {
  const Hooks* h = hooks.load(std::memory_order_acquire);
  if (h != nullptr) h->work(&work);
}

double stretch() {
  const Hooks* h = hooks.load(std::memory_order_acquire);
  return h != nullptr ? 1 + h->stretch() : 1;
}

void place(Stream* stream, uint64_t length_ns, uint64_t* engine, Work* work) {
  uint64_t start = gpu_sim_now() + static_cast<uint64_t>(double(kLatencyNs) / speed());
  if (stream->ready_ns > start) start = stream->ready_ns;
  if (engine != nullptr && *engine > start) start = *engine;
  uint64_t end = start + length_ns;
  stream->ready_ns = end;
  if (engine != nullptr) *engine = end;
  work->device = stream->context->device->index;
  work->context = stream->context->uid;
  work->stream = stream->id;
  work->start_ns = start;
  work->end_ns = end;
}

uint64_t scaled(double ns) {
  auto length = static_cast<uint64_t>(ns / speed());
  return length == 0 ? 1 : length;
}

int check(Stream* stream) {
  if (!initialized) return outcome = kNotInitialized;
  if (stream == nullptr || !stream->context->alive) return outcome = kInvalidContext;
  if (!stream->alive) return outcome = kInvalidHandle;
  if (lost_after() != 0 && launches.load() >= lost_after()) return outcome = kLaunchFailed;
  return kSuccess;
}

void wait_for_room(Stream* stream) {
  uint64_t now = gpu_sim_now();
  if (stream->ready_ns > now + kDeepestQueueNs) sleep_until(stream->ready_ns - kDeepestQueueNs);
}

}  // namespace gpu_sim

using namespace gpu_sim;

namespace {

int launch(Function* function, uint64_t length_ns, Stream* stream, uint32_t correlation) {
  int error = check(stream);
  if (error != kSuccess) return error;
  if (!function->module->alive) return outcome = kInvalidHandle;
  if (stream->capturing != nullptr) {
    add_node(stream->capturing, {0, kKernel, function->name, length_ns, 0, 0});
    return kSuccess;
  }
  Work work = {};
  work.kind = kKernel;
  work.name = function->name;
  work.correlation = correlation;
  {
    std::lock_guard<std::mutex> lock(stream->context->device->mutex);
    place(stream, scaled(double(length_ns) * stretch()), nullptr, &work);
  }
  launches.fetch_add(1, std::memory_order_relaxed);
  kernel_ns.fetch_add(work.end_ns - work.start_ns, std::memory_order_relaxed);
  tell_work(work);
  wait_for_room(stream);
  return kSuccess;
}

int copy(WorkKind kind, uint32_t copy_kind, size_t bytes, void* handle, uint32_t correlation) {
  Stream* stream = stream_of(handle);
  int error = check(stream);
  if (error != kSuccess) return error;
  double length = double(bytes) / kCopyBytesPerNs + 1000;
  if (stream->capturing != nullptr) {
    add_node(stream->capturing, {0, kind, nullptr, uint64_t(length), bytes, copy_kind});
    return kSuccess;
  }
  Work work = {};
  work.kind = kind;
  work.bytes = bytes;
  work.copy_kind = copy_kind;
  work.correlation = correlation;
  Device* device = stream->context->device;
  {
    std::lock_guard<std::mutex> lock(device->mutex);
    uint64_t* engine = kind == kSet ? nullptr : &device->copy_ready_ns[copy_kind == 2 ? 1 : 0];
    place(stream, scaled(length), engine, &work);
  }
  tell_work(work);
  return kSuccess;
}

int memory(WorkKind kind, uint64_t address, size_t bytes) {
  if (current == nullptr) return kInvalidContext;
  Work work = {};
  work.kind = kind;
  work.device = current->device->index;
  work.context = current->uid;
  work.bytes = bytes;
  work.address = address;
  work.start_ns = work.end_ns = gpu_sim_now();
  tell_work(work);
  return kSuccess;
}

}  // namespace

extern "C" {

int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned, void* stream,
                   void**, void**) {
  if (function == nullptr) return kInvalidValue;
  auto* f = static_cast<Function*>(function);
  Api api(307, "cuLaunchKernel", f->name);
  uint64_t length = uint64_t{grid_x} * grid_y * grid_z * block_x * block_y * block_z;
  return launch(f, length, stream_of(stream), api.correlation());
}

// As the runtime library would: a call of its own around the driver's.
int gpu_sim_runtime_launch(void* function, unsigned grid, unsigned block, void* stream) {
  if (function == nullptr) return kInvalidValue;
  Api api(211, "cudaLaunchKernel", static_cast<Function*>(function)->name, 2);
  return cuLaunchKernel(function, grid, 1, 1, block, 1, 1, 0, stream, nullptr, nullptr);
}

// Many launches by one call, so that what Python costs does not hide what a launch costs.
int gpu_sim_launch_many(void* function, unsigned count, unsigned ns, void* stream) {
  int error = kSuccess;
  for (unsigned i = 0; i < count && error == kSuccess; i++) {
    error = cuLaunchKernel(function, ns, 1, 1, 1, 1, 1, 0, stream, nullptr, nullptr);
  }
  return error;
}

// A launch each of kernels with names of their own.
int gpu_sim_launch_names(void* module, unsigned count) {
  int error = kSuccess;
  for (unsigned i = 0; i < count && error == kSuccess; i++) {
    void* function = nullptr;
    char name[32];
    snprintf(name, sizeof(name), "made_up_%u", i);
    error = cuModuleGetFunction(&function, module, name);
    if (error == kSuccess) {
      error = cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, nullptr, nullptr, nullptr);
    }
  }
  return error;
}

int cuMemcpyHtoDAsync_v2(uint64_t, const void*, size_t bytes, void* stream) {
  Api api(277, "cuMemcpyHtoDAsync_v2", nullptr);
  return copy(kCopy, 1, bytes, stream, api.correlation());
}

int cuMemcpyDtoHAsync_v2(void*, uint64_t, size_t bytes, void* stream) {
  Api api(279, "cuMemcpyDtoHAsync_v2", nullptr);
  return copy(kCopy, 2, bytes, stream, api.correlation());
}

int cuMemcpyDtoDAsync_v2(uint64_t, uint64_t, size_t bytes, void* stream) {
  Api api(281, "cuMemcpyDtoDAsync_v2", nullptr);
  return copy(kCopy, 8, bytes, stream, api.correlation());
}

int cuMemcpyPeerAsync(uint64_t, void*, uint64_t, void*, size_t bytes, void* stream) {
  Api api(319, "cuMemcpyPeerAsync", nullptr);
  return copy(kPeerCopy, 10, bytes, stream, api.correlation());
}

int cuMemsetD8Async(uint64_t, unsigned char, size_t bytes, void* stream) {
  Api api(216, "cuMemsetD8Async", nullptr);
  return copy(kSet, 0, bytes, stream, api.correlation());
}

int cuMemAlloc_v2(uint64_t* address, size_t bytes) {
  static std::atomic<uint64_t> next{0x7f0000000000};
  *address = next.fetch_add((bytes + 511) / 512 * 512);
  return memory(kAllocate, *address, bytes);
}

int cuMemFree_v2(uint64_t address) { return memory(kFree, address, 0); }

}  // extern "C"
