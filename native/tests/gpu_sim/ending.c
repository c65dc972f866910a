// native/tests/gpu_sim/ending.c: a program that launches work in an exit handler of its own, which
// runs after those of libraries that were loaded later.
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

typedef int Launch(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                   unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                   void* stream, void** parameters, void** extra);

static Launch* launch;
static void* late;

static void work(void* function, int count) {
  for (int i = 0; i < count; i++) launch(function, 1000, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL);
}

static void at_exit(void) { work(late, 50); }

static void* found(void* driver, const char* name) {
  void* function = dlsym(driver, name);
  if (function != NULL) return function;
  fprintf(stderr, "%s\n", dlerror());
  exit(1);
}

int main(void) {
  void *driver = dlopen("libcuda.so.1", RTLD_NOW), *context, *module, *early;
  if (driver == NULL) return 1;
  launch = (Launch*)found(driver, "cuLaunchKernel");
  atexit(at_exit);
  ((int (*)(unsigned))found(driver, "cuInit"))(0);
  ((int (*)(void**, int))found(driver, "cuDevicePrimaryCtxRetain"))(&context, 0);
  ((int (*)(void*))found(driver, "cuCtxSetCurrent"))(context);
  ((int (*)(void**, const void*))found(driver, "cuModuleLoadData"))(&module, NULL);
  int (*get)(void**, void*, const char*) =
      (int (*)(void**, void*, const char*))found(driver, "cuModuleGetFunction");
  get(&early, module, "early");
  get(&late, module, "late");
  work(early, 100);
  return 0;
}
