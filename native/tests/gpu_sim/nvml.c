// A simulated libnvidia-ml.so.1: the functions that the agent uses, with NVIDIA's own declarations.
//
// Strict: a call that no correct client makes (a handle that is none, a wrong version, a sample
// that was never filled, use before nvmlInit or after nvmlShutdown) ends the process with a
// message.
//
// PILOTLIGHT_SIM_NVML names a file of lines `key value`, read again whenever it changes:
//   devices N        gpm 0|1         mig 0|1            how the node looks (at nvmlInit)
//   fail FUNCTION CODE               answers CODE
//   block FUNCTION MS                takes that long
//   lost INDEX                       that GPU answers GPU_IS_LOST
//   xid SERIAL INDEX NUMBER          happens once, when SERIAL is new
//   set INDEX NAME VALUE             one of busy, power, clock, temperature, memory, throttle,
//   tensor
// Built with NVML_SIM_OLD it is a driver of 2021: no GPM, no _v3, no clock event reasons.
#include <nvml.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

#define MOST_DEVICES 16
#define MOST_RULES 64
#define MOST_SAMPLES 256
#define TOTAL_BYTES (80ULL << 30)
#define LEAST_GAP_NS 100000000ULL

struct nvmlDevice_st {
  unsigned index;
  int is_instance;
};

struct nvmlGpmSample_st {
  int is_allocated;
  unsigned long long taken_ns;  // 0: never filled
  unsigned device;
};

struct nvmlEventSet_st {
  int is_created;
  unsigned long long wanted[MOST_DEVICES];
};

typedef struct {
  char function[64];
  long value;
} Rule;

typedef struct {
  unsigned busy, power_w, clock_mhz, temperature, memory_percent, tensor;
  unsigned long long throttle;
} Look;

typedef struct {
  unsigned device;
  unsigned long long number;
} Xid;

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static int users;
static unsigned devices = 2;
static int has_gpm = 1, has_mig;
static Rule fails[MOST_RULES], blocks[MOST_RULES];
static unsigned fail_count, block_count;
static int is_lost[MOST_DEVICES];
static Look looks[MOST_DEVICES];
static Xid xids[MOST_RULES];
static unsigned xid_count;
static long last_serial;
static struct timespec read_at;
static struct nvmlDevice_st handles[MOST_DEVICES], instances[MOST_DEVICES];
static struct nvmlEventSet_st event_set;

static void illegal(const char* function, const char* what) {
  fprintf(stderr, "simulated NVML: %s: %s\n", function, what);
  abort();
}

static unsigned long long now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

static void plain(void) {
  fail_count = block_count = 0;
  memset(is_lost, 0, sizeof is_lost);
  for (unsigned i = 0; i < MOST_DEVICES; i++)
    looks[i] = (Look){90 - i, 400 + i, 1755, 60 + i, 50, 40, 0};
}

static void set_look(unsigned index, const char* name, unsigned long long value) {
  if (index >= MOST_DEVICES) illegal("set", "no such device");
  Look* look = &looks[index];
  if (!strcmp(name, "busy"))
    look->busy = value;
  else if (!strcmp(name, "power"))
    look->power_w = value;
  else if (!strcmp(name, "clock"))
    look->clock_mhz = value;
  else if (!strcmp(name, "temperature"))
    look->temperature = value;
  else if (!strcmp(name, "memory"))
    look->memory_percent = value;
  else if (!strcmp(name, "throttle"))
    look->throttle = value;
  else if (!strcmp(name, "tensor"))
    look->tensor = value;
  else
    illegal("set", name);
}

static void obey(char* line) {
  char word[64];
  long a = 0, b = 0, c = 0;
  unsigned long long value = 0;
  if (sscanf(line, "fail %63s %ld", word, &a) == 2 && fail_count < MOST_RULES) {
    strcpy(fails[fail_count].function, word);
    fails[fail_count++].value = a;
  } else if (sscanf(line, "block %63s %ld", word, &a) == 2 && block_count < MOST_RULES) {
    strcpy(blocks[block_count].function, word);
    blocks[block_count++].value = a;
  } else if (sscanf(line, "lost %ld", &a) == 1 && a < MOST_DEVICES) {
    is_lost[a] = 1;
  } else if (sscanf(line, "xid %ld %ld %ld", &a, &b, &c) == 3 && xid_count < MOST_RULES) {
    if (a > last_serial) {
      last_serial = a;
      xids[xid_count++] = (Xid){b, c};
    }
  } else if (sscanf(line, "set %ld %63s %llu", &a, word, &value) == 3) {
    set_look(a, word, value);
  } else if (sscanf(line, "devices %ld", &a) == 1 && a <= MOST_DEVICES) {
    if (!users) devices = a;
  } else if (sscanf(line, "gpm %ld", &a) == 1) {
    has_gpm = a;
  } else if (sscanf(line, "mig %ld", &a) == 1) {
    has_mig = a;
  } else if (line[0] != '\n' && line[0] != '#') {
    illegal("PILOTLIGHT_SIM_NVML", line);
  }
}

static void read_orders(void) {
  const char* path = getenv("PILOTLIGHT_SIM_NVML");
  struct stat found;
  if (!path || stat(path, &found)) {
    if (!looks[0].clock_mhz) plain();
    return;
  }
  if (looks[0].clock_mhz && !memcmp(&found.st_mtim, &read_at, sizeof read_at)) return;
  read_at = found.st_mtim;
  plain();
  FILE* file = fopen(path, "r");
  char line[256];
  while (file && fgets(line, sizeof line, file)) obey(line);
  if (file) fclose(file);
}

// What every function does first: 0, or the answer that was ordered.
static nvmlReturn_t enter(const char* function, nvmlDevice_t device) {
  pthread_mutex_lock(&lock);
  read_orders();
  long wait_ms = 0;
  nvmlReturn_t answer = NVML_SUCCESS;
  for (unsigned i = 0; i < block_count; i++)
    if (!strcmp(blocks[i].function, function)) wait_ms = blocks[i].value;
  for (unsigned i = 0; i < fail_count; i++)
    if (!strcmp(fails[i].function, function)) answer = (nvmlReturn_t)fails[i].value;
  int is_used = users > 0 || !strncmp(function, "nvmlInit", 8);
  unsigned index = device ? device->index : 0;
  int is_ours = !device || device == &handles[index % MOST_DEVICES] ||
                device == &instances[index % MOST_DEVICES];
  int lost = device && is_ours && is_lost[index];
  pthread_mutex_unlock(&lock);
  if (!is_used) illegal(function, "called before nvmlInit or after nvmlShutdown");
  if (!is_ours) illegal(function, "not a device");
  if (wait_ms) nanosleep(&(struct timespec){wait_ms / 1000, wait_ms % 1000 * 1000000}, NULL);
  if (lost) return NVML_ERROR_GPU_IS_LOST;
  return answer;
}

#define ENTER(device)                                \
  do {                                               \
    nvmlReturn_t answer = enter(__func__, (device)); \
    if (answer != NVML_SUCCESS) return answer;       \
  } while (0)
#define NEED(pointer) \
  if (!(pointer)) illegal(__func__, "NULL where a value is to go")
#define DEVICE(device) \
  if (!(device)) illegal(__func__, "NULL device")

static nvmlReturn_t put_text(const char* text, char* out, unsigned length) {
  if (strlen(text) >= length) return NVML_ERROR_INSUFFICIENT_SIZE;
  strcpy(out, text);
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void) {
  ENTER(NULL);
  for (unsigned i = 0; i < MOST_DEVICES; i++) {
    handles[i] = (struct nvmlDevice_st){i, 0};
    instances[i] = (struct nvmlDevice_st){i, 1};
  }
  users++;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlShutdown(void) {
  ENTER(NULL);
  users--;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char* version, unsigned int length) {
  ENTER(NULL);
  NEED(version);
  return put_text("580.65.06-simulated", version, length);
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int* count) {
  ENTER(NULL);
  NEED(count);
  *count = devices;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t* device) {
  ENTER(NULL);
  NEED(device);
  if (index >= devices) return NVML_ERROR_INVALID_ARGUMENT;
  *device = &handles[index];
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* name, unsigned int length) {
  DEVICE(device);
  ENTER(device);
  NEED(name);
  return put_text("Simulated H100", name, length);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* uuid, unsigned int length) {
  DEVICE(device);
  ENTER(device);
  NEED(uuid);
  char text[64];
  snprintf(text, sizeof text, "GPU-00000000-0000-0000-0000-%012u", device->index);
  return put_text(text, uuid, length);
}

nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* utilization) {
  DEVICE(device);
  ENTER(device);
  NEED(utilization);
  if (has_mig) return NVML_ERROR_NOT_SUPPORTED;
  *utilization = (nvmlUtilization_t){looks[device->index].busy, looks[device->index].busy / 2};
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, nvmlClockType_t type,
                                    unsigned int* clock) {
  DEVICE(device);
  ENTER(device);
  NEED(clock);
  if (type >= NVML_CLOCK_COUNT) illegal(__func__, "no such clock");
  *clock = type == NVML_CLOCK_MEM ? 2619 : looks[device->index].clock_mhz;
  return NVML_SUCCESS;
}

#ifndef NVML_SIM_OLD
nvmlReturn_t nvmlDeviceGetCurrentClocksEventReasons(nvmlDevice_t device,
                                                    unsigned long long* reasons) {
  DEVICE(device);
  ENTER(device);
  NEED(reasons);
  *reasons = looks[device->index].throttle;
  return NVML_SUCCESS;
}
#endif

nvmlReturn_t nvmlDeviceGetCurrentClocksThrottleReasons(nvmlDevice_t device,
                                                       unsigned long long* reasons) {
  DEVICE(device);
  ENTER(device);
  NEED(reasons);
  *reasons = looks[device->index].throttle;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int* power) {
  DEVICE(device);
  ENTER(device);
  NEED(power);
  *power = looks[device->index].power_w * 1000;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int* limit) {
  DEVICE(device);
  ENTER(device);
  NEED(limit);
  *limit = 700000;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device, unsigned long long* energy) {
  DEVICE(device);
  ENTER(device);
  NEED(energy);
  *energy = now_ns() / 1000000 * looks[device->index].power_w;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, nvmlTemperatureSensors_t sensor,
                                      unsigned int* temperature) {
  DEVICE(device);
  ENTER(device);
  NEED(temperature);
  if (sensor != NVML_TEMPERATURE_GPU) illegal(__func__, "no such sensor");
  *temperature = looks[device->index].temperature;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory) {
  DEVICE(device);
  ENTER(device);
  NEED(memory);
  memory->total = TOTAL_BYTES;
  memory->used = TOTAL_BYTES / 100 * looks[device->index].memory_percent;
  memory->free = memory->total - memory->used;
  return NVML_SUCCESS;
}

static nvmlReturn_t field(unsigned device, nvmlFieldValue_t* value) {
  unsigned long long grown = now_ns() / 1000;  // 1 MB a second, in units of the field
  value->valueType = NVML_VALUE_TYPE_UNSIGNED_LONG_LONG;
  value->value.ullVal = 0;
  switch (value->fieldId) {
    case NVML_FI_DEV_ECC_SBE_VOL_TOTAL:
      value->value.ullVal = 7;
      return NVML_SUCCESS;
    case NVML_FI_DEV_MEMORY_TEMP:
      value->valueType = NVML_VALUE_TYPE_UNSIGNED_INT;
      value->value.uiVal = looks[device].temperature + 10;
      return NVML_SUCCESS;
    case NVML_FI_DEV_PERF_POLICY_POWER:
      value->value.ullVal = looks[device].throttle & 4 ? now_ns() / 2 : 0;
      return NVML_SUCCESS;
    case NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_TX:
    case NVML_FI_DEV_NVLINK_THROUGHPUT_DATA_RX:
      if (value->scopeId != 0xFFFFFFFFu && value->scopeId >= NVML_NVLINK_MAX_LINKS)
        return NVML_ERROR_INVALID_ARGUMENT;
      value->value.ullVal = grown;
      return NVML_SUCCESS;
#ifndef NVML_SIM_OLD
    case NVML_FI_DEV_PCIE_COUNT_TX_BYTES:
    case NVML_FI_DEV_PCIE_COUNT_RX_BYTES:
      value->value.ullVal = grown;
      return NVML_SUCCESS;
#endif
    case NVML_FI_DEV_ECC_DBE_VOL_TOTAL:
    case NVML_FI_DEV_NVLINK_CRC_FLIT_ERROR_COUNT_TOTAL:
    case NVML_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL:
    case NVML_FI_DEV_NVLINK_RECOVERY_ERROR_COUNT_TOTAL:
    case NVML_FI_DEV_PERF_POLICY_THERMAL:
    case NVML_FI_DEV_PERF_POLICY_BOARD_LIMIT:
    case NVML_FI_DEV_PERF_POLICY_RELIABILITY:
    case NVML_FI_DEV_PCIE_REPLAY_COUNTER:
    case NVML_FI_DEV_REMAPPED_COR:
    case NVML_FI_DEV_REMAPPED_UNC:
    case NVML_FI_DEV_REMAPPED_PENDING:
    case NVML_FI_DEV_REMAPPED_FAILURE:
      return NVML_SUCCESS;
    default:
      return NVML_ERROR_NOT_SUPPORTED;
  }
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, nvmlFieldValue_t* values) {
  DEVICE(device);
  ENTER(device);
  NEED(values);
  if (count <= 0) illegal(__func__, "no fields");
  for (int i = 0; i < count; i++) {
    if (!values[i].fieldId || values[i].fieldId >= NVML_FI_MAX) illegal(__func__, "no such field");
    values[i].timestamp = (long long)(now_ns() / 1000);
    values[i].nvmlReturn = field(device->index, &values[i]);
  }
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, nvmlPcieUtilCounter_t counter,
                                         unsigned int* value) {
  DEVICE(device);
  ENTER(device);
  NEED(value);
  if (counter >= NVML_PCIE_UTIL_COUNT) illegal(__func__, "no such counter");
  nanosleep(&(struct timespec){0, 20000000}, NULL);
  *value = 1000;
  return NVML_SUCCESS;
}

static nvmlReturn_t processes(unsigned int* count, nvmlProcessInfo_t* infos) {
  if (*count < 1) {
    *count = 1;
    return NVML_ERROR_INSUFFICIENT_SIZE;
  }
  *count = 1;
  infos[0] = (nvmlProcessInfo_t){4711, 3ULL << 30, 0xFFFFFFFFu, 0xFFFFFFFFu};
  return NVML_SUCCESS;
}

#ifndef NVML_SIM_OLD
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int* count,
                                                     nvmlProcessInfo_t* infos) {
  DEVICE(device);
  ENTER(device);
  NEED(count);
  return processes(count, infos);
}
#endif

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int* count,
                                                     nvmlProcessInfo_v2_t* infos) {
  DEVICE(device);
  ENTER(device);
  NEED(count);
  return processes(count, infos);
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int* current,
                                  unsigned int* pending) {
  DEVICE(device);
  ENTER(device);
  NEED(current);
  NEED(pending);
  *current = *pending = has_mig;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int* count) {
  DEVICE(device);
  ENTER(device);
  NEED(count);
  *count = has_mig ? 7 : 0;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index,
                                                 nvmlDevice_t* instance) {
  DEVICE(device);
  ENTER(device);
  NEED(instance);
  if (index >= 1) return NVML_ERROR_NOT_FOUND;
  *instance = &instances[device->index];
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int* id) {
  DEVICE(device);
  ENTER(device);
  NEED(id);
  if (!device->is_instance) illegal(__func__, "not a MIG device");
  *id = 1;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetCreate(nvmlEventSet_t* set) {
  ENTER(NULL);
  NEED(set);
  event_set.is_created = 1;
  *set = &event_set;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetFree(nvmlEventSet_t set) {
  ENTER(NULL);
  if (set != &event_set || !set->is_created) illegal(__func__, "not an event set");
  set->is_created = 0;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceGetSupportedEventTypes(nvmlDevice_t device, unsigned long long* types) {
  DEVICE(device);
  ENTER(device);
  NEED(types);
  *types = nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlDeviceRegisterEvents(nvmlDevice_t device, unsigned long long types,
                                      nvmlEventSet_t set) {
  DEVICE(device);
  ENTER(device);
  if (set != &event_set || !set->is_created) illegal(__func__, "not an event set");
  if (types & ~(nvmlEventTypeXidCriticalError | nvmlEventTypeDoubleBitEccError))
    return NVML_ERROR_NOT_SUPPORTED;
  set->wanted[device->index] |= types;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlEventSetWait_v2(nvmlEventSet_t set, nvmlEventData_t* data,
                                 unsigned int timeout_ms) {
  ENTER(NULL);
  NEED(data);
  if (set != &event_set || !set->is_created) illegal(__func__, "not an event set");
  pthread_mutex_lock(&lock);
  int is_there = xid_count > 0;
  Xid xid = {0, 0};
  if (is_there) {
    xid = xids[0];
    memmove(xids, xids + 1, --xid_count * sizeof *xids);
  }
  pthread_mutex_unlock(&lock);
  if (!is_there || !(set->wanted[xid.device] & nvmlEventTypeXidCriticalError)) {
    nanosleep(&(struct timespec){timeout_ms / 1000, timeout_ms % 1000 * 1000000}, NULL);
    return NVML_ERROR_TIMEOUT;
  }
  *data = (nvmlEventData_t){&handles[xid.device], nvmlEventTypeXidCriticalError, xid.number,
                            0xFFFFFFFFu, 0xFFFFFFFFu};
  return NVML_SUCCESS;
}

#ifndef NVML_SIM_OLD
static struct nvmlGpmSample_st samples[MOST_SAMPLES];

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, nvmlGpmSupport_t* support) {
  DEVICE(device);
  ENTER(device);
  NEED(support);
  if (support->version != NVML_GPM_SUPPORT_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  support->isSupportedDevice = has_gpm;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleAlloc(nvmlGpmSample_t* sample) {
  ENTER(NULL);
  NEED(sample);
  for (unsigned i = 0; i < MOST_SAMPLES; i++)
    if (!samples[i].is_allocated) {
      samples[i] = (struct nvmlGpmSample_st){1, 0, 0};
      *sample = &samples[i];
      return NVML_SUCCESS;
    }
  return NVML_ERROR_MEMORY;
}

static struct nvmlGpmSample_st* checked(const char* function, nvmlGpmSample_t sample) {
  if (sample < samples || sample >= samples + MOST_SAMPLES || !sample->is_allocated)
    illegal(function, "not an allocated sample");
  return sample;
}

nvmlReturn_t nvmlGpmSampleFree(nvmlGpmSample_t sample) {
  ENTER(NULL);
  checked(__func__, sample)->is_allocated = 0;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, nvmlGpmSample_t sample) {
  DEVICE(device);
  ENTER(device);
  if (has_mig) return NVML_ERROR_NOT_SUPPORTED;
  checked(__func__, sample)->taken_ns = now_ns();
  sample->device = device->index;
  return NVML_SUCCESS;
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int instance,
                                 nvmlGpmSample_t sample) {
  DEVICE(device);
  ENTER(device);
  if (device->is_instance) illegal(__func__, "wants the GPU, not the MIG device");
  if (!has_mig || instance != 1) return NVML_ERROR_INVALID_ARGUMENT;
  checked(__func__, sample)->taken_ns = now_ns();
  sample->device = device->index;
  return NVML_SUCCESS;
}

static void measure(nvmlGpmMetric_t* metric, const Look* look) {
  metric->nvmlReturn = NVML_SUCCESS;
  switch (metric->metricId) {
    case NVML_GPM_METRIC_GRAPHICS_UTIL:
    case NVML_GPM_METRIC_SM_UTIL:
      metric->value = look->busy * 0.75;
      break;
    case NVML_GPM_METRIC_ANY_TENSOR_UTIL:
    case NVML_GPM_METRIC_HMMA_TENSOR_UTIL:
      metric->value = look->tensor;
      break;
    case NVML_GPM_METRIC_DRAM_BW_UTIL:
      metric->value = look->busy * 0.5;
      break;
    case NVML_GPM_METRIC_PCIE_TX_PER_SEC:
    case NVML_GPM_METRIC_PCIE_RX_PER_SEC:
    case NVML_GPM_METRIC_NVLINK_TOTAL_RX_PER_SEC:
    case NVML_GPM_METRIC_NVLINK_TOTAL_TX_PER_SEC:
      metric->value = 12;
      break;
    case NVML_GPM_METRIC_DFMA_TENSOR_UTIL:
      metric->nvmlReturn = NVML_ERROR_NOT_SUPPORTED;
      break;
    default:
      metric->value = 1;
  }
}

nvmlReturn_t nvmlGpmMetricsGet(nvmlGpmMetricsGet_t* get) {
  ENTER(NULL);
  NEED(get);
  if (get->version != NVML_GPM_METRICS_GET_VERSION) return NVML_ERROR_ARGUMENT_VERSION_MISMATCH;
  if (!get->numMetrics || get->numMetrics > NVML_GPM_METRIC_MAX) illegal(__func__, "numMetrics");
  const struct nvmlGpmSample_st* first = checked(__func__, get->sample1);
  const struct nvmlGpmSample_st* second = checked(__func__, get->sample2);
  if (!first->taken_ns || !second->taken_ns) illegal(__func__, "a sample was never filled");
  if (first->device != second->device) illegal(__func__, "samples of two devices");
  if (second->taken_ns < first->taken_ns) illegal(__func__, "the samples are the wrong way round");
  if (second->taken_ns - first->taken_ns < LEAST_GAP_NS) illegal(__func__, "less than 100 ms");
  for (unsigned i = 0; i < get->numMetrics; i++) {
    if (!get->metrics[i].metricId || get->metrics[i].metricId >= NVML_GPM_METRIC_MAX)
      illegal(__func__, "no such metric");
    measure(&get->metrics[i], &looks[first->device]);
  }
  return NVML_SUCCESS;
}
#endif
