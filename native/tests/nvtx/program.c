// A program with NVIDIA's own NVTX headers: every kind of call, with names that a test looks for.
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtSync.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static nvtxEventAttributes_t named(const char* name) {
  nvtxEventAttributes_t attributes = {0};
  attributes.version = NVTX_VERSION;
  attributes.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
  attributes.messageType = NVTX_MESSAGE_TYPE_ASCII;
  attributes.message.ascii = name;
  return attributes;
}

static void* end_elsewhere(void* id) {
  nvtxRangeEnd(*(nvtxRangeId_t*)id);
  return NULL;
}

static void every_call(void) {
  int depth = nvtxRangePushA("outer");
  int inner = nvtxRangePushW(L"inner é 漢");
  usleep(2000);
  int popped = nvtxRangePop();
  nvtxRangePop();
  printf("depths %d %d %d %d\n", depth, inner, popped, nvtxRangePop());

  nvtxDomainHandle_t one = nvtxDomainCreateA("one");
  nvtxDomainHandle_t two = nvtxDomainCreateW(L"two");
  nvtxDomainNameCategoryA(one, 7, "io");
  nvtxStringHandle_t load = nvtxDomainRegisterStringA(one, "load");
  nvtxEventAttributes_t attributes = named("");
  attributes.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  attributes.message.registered = load;
  attributes.category = 7;
  attributes.payloadType = NVTX_PAYLOAD_TYPE_INT64;
  attributes.payload.llValue = -42;
  nvtxDomainRangePushEx(one, &attributes);
  nvtxDomainRangePop(one);

  // Two domains that do not nest.
  nvtxEventAttributes_t first = named("crossing"), second = named("crossed");
  nvtxDomainRangePushEx(one, &first);
  nvtxDomainRangePushEx(two, &second);
  usleep(1000);
  nvtxDomainRangePop(one);
  usleep(1000);
  nvtxDomainRangePop(two);

  nvtxRangeId_t id = nvtxRangeStartA("started");
  nvtxEventAttributes_t ex = named("started in one");
  nvtxRangeId_t other = nvtxDomainRangeStartEx(one, &ex);
  pthread_t thread;
  pthread_create(&thread, NULL, end_elsewhere, &id);
  pthread_join(thread, NULL);
  nvtxDomainRangeEnd(one, other);
  nvtxRangeEnd(4711);

  nvtxEventAttributes_t mark = named("a mark");
  mark.payloadType = NVTX_PAYLOAD_TYPE_DOUBLE;
  mark.payload.dValue = 2.5;
  nvtxMarkEx(&mark);
  nvtxMarkA("plain mark");
  nvtxNameOsThreadA(getpid(), "the main one");
  nvtxNameCategoryA(3, "three");
  nvtxResourceAttributes_t resource = {0};
  resource.version = NVTX_VERSION;
  resource.size = NVTX_RESOURCE_ATTRIB_STRUCT_SIZE;
  resource.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  resource.message.registered = load;
  nvtxDomainResourceDestroy(nvtxDomainResourceCreate(one, &resource));
  nvtxSyncUserAttributes_t lock = {0};
  lock.version = NVTX_VERSION;
  lock.size = NVTX_SYNCUSER_ATTRIB_STRUCT_SIZE;
  lock.messageType = NVTX_MESSAGE_TYPE_REGISTERED;
  lock.message.registered = load;
  nvtxDomainSyncUserReleasing(nvtxDomainSyncUserCreate(one, &lock));
  nvtxDomainDestroy(two);

  // Nothing sensible.
  nvtxRangePushEx(NULL);
  nvtxRangePop();
  nvtxEventAttributes_t tiny = {0};
  nvtxMarkEx(&tiny);
  char* long_name = malloc(4097);
  memset(long_name, 'x', 4096);
  long_name[4096] = 0;
  nvtxRangePushA(long_name);
  nvtxRangePop();
  free(long_name);
}

static void many(long names) {
  nvtxDomainHandle_t domain = nvtxDomainCreateA("many");
  for (long i = 0; i < names; i++) {
    char text[64];
    snprintf(text, sizeof text, "name %ld", i);
    nvtxDomainRegisterStringA(domain, text);
  }
  for (int i = 0; i < 300; i++) nvtxRangePushA("deep");
  for (int i = 0; i < 300; i++) nvtxRangePop();
  for (int i = 0; i < 5000; i++) nvtxRangeStartA("never ended");
}

static void* work_on(void* nothing) {
  usleep(100000);
  nvtxRangePushA("after main");
  nvtxRangePop();
  return nothing;
}

// The main thread ends, the program with its last one.
static void leave_main(void) {
  pthread_t thread;
  nvtxMarkA("main");
  pthread_create(&thread, NULL, work_on, NULL);
  pthread_exit(NULL);
}

int main(int count, char** words) {
  if (count > 1 && !strcmp(words[1], "leave")) leave_main();
  if (count > 2 && !strcmp(words[1], "many"))
    many(atol(words[2]));
  else
    every_call();
  return 0;
}
