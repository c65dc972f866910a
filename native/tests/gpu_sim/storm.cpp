// native/tests/gpu_sim/storm.cpp: a program without Python that launches kernels at a steady rate.
//
// storm RATE SECONDS [THREADS [KERNEL_NS]]: RATE launches a second on each thread, each thread on a
// device of its own. Ends with one line of JSON: the truth, and what profiling cost.
#include <dlfcn.h>
#include <pthread.h>
#include <time.h>

#include <atomic>
#include <vector>

#include "sim.h"

namespace {

struct Driver {
  int (*init)(unsigned);
  int (*context)(void**, int);
  int (*set_current)(void*);
  int (*module)(void**, const void*);
  int (*function)(void**, void*, const char*);
  int (*launch)(void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned, void*,
                void**, void**);
  int (*synchronize)();
  void (*stats)(gpu_sim::Stats*);
};
Driver driver;
double rate = 1000, seconds = 1;
unsigned kernel_ns = 500;

double now(clockid_t clock) {
  timespec t;
  clock_gettime(clock, &t);
  return double(t.tv_sec) * 1e9 + double(t.tv_nsec);
}

// At half time: what comes after it is the settled state.
std::atomic<uint64_t> half_profiler_ns{0};

// How long the calling thread could have run and had no core: other programs' doing.
double waited_ns() {
  double ran = 0, waited = 0;
  FILE* file = fopen("/proc/thread-self/schedstat", "r");
  if (file != nullptr && fscanf(file, "%lf %lf", &ran, &waited) != 2) waited = 0;
  if (file != nullptr) fclose(file);
  return waited;
}

struct Result {
  int device;
  unsigned long long launched;
  double cpu_ns;
  double late_ns;  // of the second half, without what other programs took of it
  int error;
};

void* run(void* data) {
  auto* result = static_cast<Result*>(data);
  void *context = nullptr, *module = nullptr, *function[4];
  const char* names[] = {"_ZN2at6native18elementwise_kernelILi128ELi4EEEvi", "gemm_128x128_nn",
                         "layer_norm", "softmax"};
  driver.context(&context, result->device);
  driver.set_current(context);
  driver.module(&module, "");
  for (int i = 0; i < 4; i++) driver.function(&function[i], module, names[i]);
  double begin = now(CLOCK_MONOTONIC), cpu = now(CLOCK_THREAD_CPUTIME_ID);
  double end = begin + seconds * 1e9, half = 0, half_waited = 0;
  while (true) {
    double time = now(CLOCK_MONOTONIC);
    if (time >= end || result->error != 0) break;
    if (half == 0 && time >= begin + seconds * 5e8) {
      half = time;
      half_waited = waited_ns();
      gpu_sim::Stats stats;
      driver.stats(&stats);
      if (result->device == 0) half_profiler_ns = stats.profiler_ns;
    }
    auto due = static_cast<unsigned long long>((time - begin) * rate / 1e9);
    if (result->launched >= due) {
      timespec pause = {0, 100000};
      nanosleep(&pause, nullptr);
      continue;
    }
    // In bursts, as queues of small kernels come.
    for (int i = 0; i < 64 && result->launched < due && result->error == 0; i++) {
      result->error = driver.launch(function[result->launched % 4], kernel_ns, 1, 1, 1, 1, 1, 0,
                                    nullptr, nullptr, nullptr);
      if (result->error == 0) result->launched++;
    }
  }
  result->cpu_ns = now(CLOCK_THREAD_CPUTIME_ID) - cpu;
  result->late_ns = now(CLOCK_MONOTONIC) - half - (waited_ns() - half_waited);
  driver.synchronize();
  return nullptr;
}

template <typename F>
void get(void* library, const char* name, F* function) {
  *function = reinterpret_cast<F>(dlsym(library, name));
  if (*function == nullptr) gpu_sim::illegal(name);
}

}  // namespace

int main(int count, char** words) {
  if (count > 1) rate = atof(words[1]);
  if (count > 2) seconds = atof(words[2]);
  int threads = count > 3 ? atoi(words[3]) : 1;
  if (count > 4) kernel_ns = static_cast<unsigned>(atoi(words[4]));
  void* library = dlopen("libcuda.so.1", RTLD_NOW);
  if (library == nullptr) {
    fprintf(stderr, "storm: %s\n", dlerror());
    return 1;
  }
  get(library, "cuInit", &driver.init);
  get(library, "cuDevicePrimaryCtxRetain", &driver.context);
  get(library, "cuCtxSetCurrent", &driver.set_current);
  get(library, "cuModuleLoadData", &driver.module);
  get(library, "cuModuleGetFunction", &driver.function);
  get(library, "cuLaunchKernel", &driver.launch);
  get(library, "cuCtxSynchronize", &driver.synchronize);
  get(library, "gpu_sim_stats", &driver.stats);
  setenv("PILOTLIGHT_SIM_DEVICES", count > 3 ? words[3] : "1", 0);
  if (driver.init(0) != 0) return 2;
  std::vector<pthread_t> running(static_cast<size_t>(threads));
  std::vector<Result> results(static_cast<size_t>(threads));
  for (int i = 0; i < threads; i++) {
    results[size_t(i)] = {i, 0, 0, 0, 0};
    pthread_create(&running[size_t(i)], nullptr, run, &results[size_t(i)]);
  }
  double cpu_ns = 0, late_ns = 0;
  int error = 0;
  for (int i = 0; i < threads; i++) {
    pthread_join(running[size_t(i)], nullptr);
    cpu_ns += results[size_t(i)].cpu_ns;
    late_ns += results[size_t(i)].late_ns;
    error = results[size_t(i)].error != 0 ? results[size_t(i)].error : error;
  }
  gpu_sim::Stats stats;
  driver.stats(&stats);
  double late_ratio = double(stats.profiler_ns - half_profiler_ns) / late_ns;
  long hwm_kb = 0;
  FILE* status = fopen("/proc/self/status", "r");
  char line[256];
  while (status != nullptr && fgets(line, sizeof(line), status) != nullptr) {
    sscanf(line, "VmHWM: %ld", &hwm_kb);
  }
  printf(
      "{\"launches\": %llu, \"kernel_ns\": %llu, \"profiler_ns\": %llu, \"cpu_ns\": %.0f, "
      "\"late_ratio\": %.6f, \"peak_kb\": %ld, \"error\": %d}\n",
      (unsigned long long)stats.launches, (unsigned long long)stats.kernel_ns,
      (unsigned long long)stats.profiler_ns, cpu_ns, late_ratio, hwm_kb, error);
  return 0;
}
