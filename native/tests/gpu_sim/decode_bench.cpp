// native/tests/gpu_sim/decode_bench.cpp: what one CUPTI kernel record costs on its way to the ring.
//
// The real decoder on buffers that the simulated CUPTI filled; the ring is emptied in between, as
// an agent would. Prints nanoseconds of CPU time a record, the median of 9 rounds.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include <algorithm>
#include <vector>

#include "cuda/decoder.h"
#include "provider/provider_api.h"
#include "ring/segment.h"

using namespace pilotlight;

namespace {

constexpr int kKernels = 100000;
Segment segment;
RingWriter ring;
cupti::BufferPool pool;
std::atomic<bool> collecting{true};
std::atomic<uint32_t> run{1}, tier{0};
StepClock steps;

uint32_t define(const char* text, size_t bytes) noexcept {
  return segment.definitions().string({text, bytes});
}
uint32_t track(uint32_t name, TrackKind kind, uint16_t device, uint64_t stream) noexcept {
  return segment.definitions().track(name, kind, device, stream);
}
RingWriter* own_ring() noexcept { return &ring; }
uint32_t nothing() noexcept { return 0; }
void no_mark(const char*, size_t, int64_t) noexcept {}
void no_counter(const char*, size_t, double) noexcept {}

const ProviderApi api = {kProviderApiVersion,
                         sizeof(ProviderApi),
                         0,
                         sizeof(RingWriter),
                         &collecting,
                         &run,
                         &tier,
                         &steps,
                         own_ring,
                         define,
                         track,
                         nothing,
                         nothing,
                         no_mark,
                         no_counter};

void request(uint8_t** data, size_t* bytes, size_t* most) {
  *most = 0;
  pool.request(true, data, bytes);
}
void complete(void* context, uint32_t stream, uint8_t* data, size_t, size_t valid) {
  cupti::FullBuffer away = {};
  pool.complete(context, stream, data, valid, &away);
}
void hear(void*, uint32_t, uint32_t, const void*) {}

double cpu_ns() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

// The agent's part: everything published has been read.
void empty_ring() {
  auto* header = segment.header();
  auto* base = reinterpret_cast<char*>(header);
  auto* tails = reinterpret_cast<RingTail*>(base + header->agent_offset + kPage);
  auto* slots = reinterpret_cast<RingSlot*>(base + header->table_offset);
  tails[0].tail.store(slots[0].head.load());
}

}  // namespace

int main() {
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == nullptr || !segment.create(nullptr) || !pool.open()) return 1;
  auto init = reinterpret_cast<int (*)(unsigned)>(dlsym(driver, "cuInit"));
  auto retain = reinterpret_cast<int (*)(void**, int)>(dlsym(driver, "cuDevicePrimaryCtxRetain"));
  auto set = reinterpret_cast<int (*)(void*)>(dlsym(driver, "cuCtxSetCurrent"));
  auto load = reinterpret_cast<int (*)(void**, const void*)>(dlsym(driver, "cuModuleLoadData"));
  auto get =
      reinterpret_cast<int (*)(void**, void*, const char*)>(dlsym(driver, "cuModuleGetFunction"));
  auto launch = reinterpret_cast<int (*)(void*, unsigned, unsigned, void*)>(
      dlsym(driver, "gpu_sim_launch_many"));
  void *context = nullptr, *module = nullptr, *functions[64];
  init(0);
  retain(&context, 0);
  set(context);
  load(&module, "");
  for (int i = 0; i < 64; i++) {
    char name[64];
    snprintf(name, sizeof(name), "_Z%dkernel_%02dPfi", 9, i);
    get(&functions[i], module, name);
  }
  segment.take_ring(&ring, 1, "bench");
  static cupti::Library library;
  static cupti::GpuClock clock;
  static cupti::KernelNames names;
  static cupti::LaunchTable launches;
  static cupti::GraphNodes nodes;
  static cupti::Decoder decoder(&library, &clock, &names, &launches, &nodes);
  const char* why = library.open();
  if (why != nullptr || library.subscribe(hear, nullptr) != 0) {
    fprintf(stderr, "decode_bench: %s\n", why != nullptr ? why : "not subscribed");
    return 1;
  }
  uint8_t zeroed = 1;
  library.set_attribute(cupti::kZeroedOutBuffer, 1, &zeroed);
  library.register_buffers(request, complete, nullptr, nullptr);
  library.enable(cupti::kConcurrentKernel);
  clock.open(&library, ring.clock());
  decoder.open(&api);
  std::vector<double> rounds;
  for (int round = 0; round < 9; round++) {
    for (int i = 0; i < kKernels / 100; i++) launch(functions[i % 64], 100, 300, nullptr);
    library.flush(1);
    uint64_t before = decoder.counts().records;
    double spent = 0;
    cupti::FullBuffer full;
    while (pool.take(&full)) {
      empty_ring();
      double begin = cpu_ns();
      decoder.decode(full, &ring, 0);
      spent += cpu_ns() - begin;
      pool.give_back(full);
    }
    rounds.push_back(spent / double(decoder.counts().records - before));
  }
  std::sort(rounds.begin(), rounds.end());
  printf("{\"record_ns\": %.2f, \"records\": %llu, \"lost\": %llu}\n", rounds[4],
         (unsigned long long)decoder.counts().records,
         (unsigned long long)decoder.counts().ring_full);
  return 0;
}
