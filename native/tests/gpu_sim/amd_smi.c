// A simulated libamd_smi.so: the functions by which AMD's own Python package answers the agent. Its
// structures are those of the package (amdsmi_wrapper.py); tests/agent/counters/test_amd_smi.py
// compares their sizes, and adds all other functions that the package wants to find.
//
// Strict: use before amdsmi_init, or a handle that is none, ends the process with a message.
// PILOTLIGHT_SIM_AMD names a file; each line of it is `lost INDEX` or `fail FUNCTION CODE`.
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEVICES 2
#define NO_DATA 40
#define NOT_SUPPORTED 2

typedef struct {
  uint32_t gfx, umc, mm, reserved[13];
} Usage;
typedef struct {
  uint64_t socket;
  uint32_t current, average;
  uint64_t gfx_voltage, soc_voltage, mem_voltage;
  uint32_t limit;
  uint64_t reserved[18];
} Power;
typedef struct {
  uint32_t clk, min_clk, max_clk;
  uint8_t locked, deep_sleep;
  uint32_t reserved[4];
} Clock;
typedef struct {
  uint32_t total, used, reserved[2];
} Vram;
typedef struct {
  uint64_t correctable, uncorrectable, deferred, reserved[5];
} Errors;
typedef struct {
  uint16_t max_width;
  uint32_t max_speed, interface, slot_type, max_interface;
  uint64_t reserved[9];
} PcieStatic;
typedef struct {
  uint16_t width;
  uint32_t speed, bandwidth;
  uint64_t replays, l0_recoveries, roll_overs, naks_sent, naks_received;
  uint32_t other_end;
  uint64_t reserved[12];
} PcieMetric;
typedef struct {
  PcieStatic fixed;
  PcieMetric metric;
  uint64_t reserved[32];
} Pcie;
typedef struct {
  char name[256];
  uint32_t pid;
  uint64_t mem;
  uint64_t gfx, enc;
  uint32_t engine_reserved[12];
  uint64_t gtt, cpu, vram;
  uint32_t memory_reserved[10];
  char container[256];
  uint32_t occupancy, reserved[11];
} Process;

// In the order of the test.
const size_t amd_smi_sim_sizes[] = {sizeof(Usage),  sizeof(Power), sizeof(Clock),  sizeof(Vram),
                                    sizeof(Errors), sizeof(Pcie),  sizeof(Process)};

static int users;
static char handles[DEVICES], sockets[1];

static void illegal(const char* function, const char* what) {
  fprintf(stderr, "simulated amd_smi: %s: %s\n", function, what);
  abort();
}

static uint32_t ordered(const char* function, int index) {
  const char* path = getenv("PILOTLIGHT_SIM_AMD");
  FILE* file = path != NULL ? fopen(path, "r") : NULL;
  char line[128], name[64];
  unsigned number = 0, answer = 0;
  while (file != NULL && fgets(line, sizeof line, file) != NULL) {
    if (sscanf(line, "lost %u", &number) == 1 && index >= 0 && number == (unsigned)index)
      answer = NO_DATA;
    if (sscanf(line, "fail %63s %u", name, &number) == 2 && strcmp(name, function) == 0)
      answer = number;
  }
  if (file != NULL) fclose(file);
  return answer;
}

static uint32_t enter(const char* function, void* handle, const void* out) {
  if (users == 0) illegal(function, "called before amdsmi_init");
  int index = (int)((char*)handle - handles);
  if (index < 0 || index >= DEVICES) illegal(function, "not a device");
  if (out == NULL) illegal(function, "NULL where a value is to go");
  return ordered(function, index);
}

#define ENTER(handle, out)                               \
  do {                                                   \
    uint32_t refused = enter(__func__, (handle), (out)); \
    if (refused != 0) return refused;                    \
  } while (0)

uint32_t amdsmi_init(uint64_t flags) {
  if (flags != 2) illegal(__func__, "not for GPUs");
  uint32_t refused = ordered(__func__, -1);
  if (refused == 0) users++;
  return refused;
}

uint32_t amdsmi_shut_down(void) {
  if (users-- == 0) illegal(__func__, "called before amdsmi_init");
  return 0;
}

uint32_t amdsmi_get_socket_handles(uint32_t* count, void** out) {
  if (users == 0) illegal(__func__, "called before amdsmi_init");
  if (out != NULL) out[0] = sockets;
  *count = 1;
  return 0;
}

uint32_t amdsmi_get_processor_handles(void* socket, uint32_t* count, void** out) {
  if (socket != sockets) illegal(__func__, "not a socket");
  for (uint32_t i = 0; out != NULL && i < DEVICES; i++) out[i] = &handles[i];
  *count = DEVICES;
  return 0;
}

uint32_t amdsmi_get_gpu_activity(void* device, Usage* out) {
  ENTER(device, out);
  *out = (Usage){.gfx = 77, .umc = 30, .mm = 0xFFFF};
  return 0;
}

uint32_t amdsmi_get_power_info(void* device, Power* out) {
  ENTER(device, out);
  *out = (Power){.socket = 0xFFFF, .current = 0xFFFF, .average = 510, .limit = 750};
  return 0;
}

uint32_t amdsmi_get_clock_info(void* device, uint32_t kind, Clock* out) {
  ENTER(device, out);
  *out = (Clock){.clk = kind == 0 ? 2100 : 900, .max_clk = 2100};
  return 0;
}

uint32_t amdsmi_get_temp_metric(void* device, uint32_t sensor, uint32_t metric, int64_t* out) {
  ENTER(device, out);
  if (metric != 0) return NOT_SUPPORTED;
  *out = sensor == 1 ? 66 : 58;
  return 0;
}

uint32_t amdsmi_get_gpu_vram_usage(void* device, Vram* out) {
  ENTER(device, out);
  *out = (Vram){.total = 196608, .used = 1024};
  return 0;
}

uint32_t amdsmi_get_energy_count(void* device, uint64_t* energy, float* resolution,
                                 uint64_t* time) {
  ENTER(device, energy);
  *energy = 2000000;
  *resolution = 15.3f;
  *time = 1;
  return 0;
}

uint32_t amdsmi_get_gpu_total_ecc_count(void* device, Errors* out) {
  ENTER(device, out);
  *out = (Errors){.correctable = 2};
  return 0;
}

uint32_t amdsmi_get_pcie_info(void* device, Pcie* out) {
  ENTER(device, out);
  memset(out, 0, sizeof *out);
  out->metric.replays = 1;
  return 0;
}

uint32_t amdsmi_get_gpu_process_list(void* device, uint32_t* most, Process* out) {
  ENTER(device, most);
  if (*most < 1) return NOT_SUPPORTED;
  memset(out, 0, sizeof *out);
  strcpy(out->name, "python");
  out->pid = 9;
  out->mem = 5 << 20;
  *most = 1;
  return 0;
}
