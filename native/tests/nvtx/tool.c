// Another tool for NVTX, of the kind that may have been there first: prints the calls that it gets
// and ends the process if it gets a handle that it did not give out.
#include <nvtx3/nvToolsExt.h>
#include <nvtx3/nvToolsExtSync.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef void (*Function)(void);
typedef struct {
  size_t struct_size;
  int (*module_functions)(int module, Function*** table, unsigned int* size);
} Callbacks;

static int domain_of_mine, string_of_mine;
static char texts[64];

static void check(const void* given, const void* mine, const char* what) {
  if (given != mine) {
    fprintf(stderr, "tool: not my %s\n", what);
    abort();
  }
}

static nvtxDomainHandle_t create(const char* name) {
  printf("tool create %s\n", name);
  return (nvtxDomainHandle_t)&domain_of_mine;
}

static nvtxStringHandle_t register_string(nvtxDomainHandle_t domain, const char* text) {
  check(domain, &domain_of_mine, "domain");
  printf("tool register %s\n", text);
  strncpy(texts, text, sizeof texts - 1);
  return (nvtxStringHandle_t)&string_of_mine;
}

static int push(nvtxDomainHandle_t domain, const nvtxEventAttributes_t* attributes) {
  if (domain) check(domain, &domain_of_mine, "domain");
  if (attributes->messageType == NVTX_MESSAGE_TYPE_REGISTERED) {
    check(attributes->message.registered, &string_of_mine, "string");
    printf("tool push registered %s\n", texts);
  }
  return 77;
}

static nvtxRangeId_t start(const char* message) {
  printf("tool start %s\n", message);
  return 123456;
}

static void end(nvtxRangeId_t id) { printf("tool end %llu\n", (unsigned long long)id); }

static nvtxResourceHandle_t resource(nvtxDomainHandle_t domain,
                                     nvtxResourceAttributes_t* attributes) {
  check(domain, &domain_of_mine, "domain");
  check(attributes->message.registered, &string_of_mine, "string");
  printf("tool resource\n");
  return (nvtxResourceHandle_t)&domain_of_mine;
}

static nvtxSyncUser_t lock(nvtxDomainHandle_t domain, const nvtxSyncUserAttributes_t* attributes) {
  check(domain, &domain_of_mine, "domain");
  check(attributes->message.registered, &string_of_mine, "string");
  printf("tool lock\n");
  return (nvtxSyncUser_t)&string_of_mine;
}

static void release(nvtxSyncUser_t handle) { check(handle, &string_of_mine, "lock"); }

int InitializeInjectionNvtx2(const void* (*get_export_table)(uint32_t)) {
  const Callbacks* callbacks = get_export_table(1);
  Function** table;
  unsigned int size;
  callbacks->module_functions(5, &table, &size);
  *table[12] = (Function)create;
  *table[10] = (Function)register_string;
  *table[4] = (Function)push;
  *table[6] = (Function)resource;
  callbacks->module_functions(1, &table, &size);
  *table[5] = (Function)start;
  *table[7] = (Function)end;
  callbacks->module_functions(6, &table, &size);
  *table[1] = (Function)lock;
  *table[6] = (Function)release;
  return 1;
}
