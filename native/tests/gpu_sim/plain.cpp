// native/tests/gpu_sim/plain.cpp: an injection library that subscribes to launches and does nothing
// with them: what CUPTI itself costs, and in tests the other tool that wants CUPTI.
#include <stddef.h>
#include <stdint.h>

extern "C" {
int cuptiSubscribe(void** subscriber, void (*callback)(void*, uint32_t, uint32_t, const void*),
                   void* user);
int cuptiUnsubscribe(void* subscriber);
int cuptiEnableCallback(uint32_t on, void* subscriber, uint32_t domain, uint32_t id);

static void* subscriber = nullptr;
static uint64_t heard = 0;
static void hear(void*, uint32_t, uint32_t, const void*) { heard++; }

#if SIM_VERSION >= 130300
int cuptiSubscribe_v2(void** subscriber, void (*callback)(void*, uint32_t, uint32_t, const void*),
                      void* user, void* params);

static int subscribe() {
  struct {
    size_t bytes;
    const char* name;
    char* old_name;
    size_t old_bytes;
    uint8_t allow_multiple;
    uint8_t padding[7];
  } params = {sizeof(params), "plain", nullptr, 0, 1, {}};
  return cuptiSubscribe_v2(&subscriber, hear, nullptr, &params);
}
#else
static int subscribe() { return cuptiSubscribe(&subscriber, hear, nullptr); }
#endif

int plain_begin() {
  int error = subscribe();
  if (error == 0) cuptiEnableCallback(1, subscriber, 1, 307);
  return error;
}

int plain_end() { return cuptiUnsubscribe(subscriber); }

uint64_t plain_heard() { return heard; }

int InitializeInjection() { return plain_begin() == 0 ? 1 : 0; }
}
