// native/tests/gpu_sim/profiler_host_sim.cpp: CUPTI's Profiler Host API, simulated.
//
// Which metrics a chip has and which fit in one pass is as the real library of CUDA 12.9 answers
// for the few that are known here; tests/gpu/test_metrics.py asks it. Kernels with "gemm" in their
// name keep the tensor units busy, all others the memory.
#include <atomic>
#include <map>
#include <mutex>

#include "profiler_sim.h"

namespace abi = pilotlight::cupti;
using abi::ProfilerType;
using gpu_sim::check_params;
using gpu_sim::illegal;
using gpu_sim::Image;
using gpu_sim::kVersion;

namespace {

const char* const kChips[] = {"TU102", "GA100", "GA102", "AD102", "GH100", "GB100"};
constexpr char kPercent[] = ".avg.pct_of_peak_sustained_elapsed";
constexpr char kConfigMagic[] = "simulated configuration";

struct Host {
  ProfilerType type;
  std::string chip;
  std::vector<std::string> metrics;
};

struct Config {
  char magic[sizeof(kConfigMagic)];
  ProfilerType type;
  uint64_t passes;
};

std::mutex mutex;
std::map<void*, Host*> hosts;
std::atomic<int> initialized{0};

Host* host_of(void* object) {
  auto found = hosts.find(object);
  if (found == hosts.end()) illegal("a profiler host object that is none");
  return found->second;
}

bool is(const std::string& name, const char* base) { return name == std::string(base) + kPercent; }

bool is_known(const Host& host, const std::string& name) {
  bool samples = host.type == ProfilerType::kPmSampling;
  for (const char* base : {"sm__cycles_active", "gr__cycles_active", "sm__inst_executed_realtime",
                           "sm__warps_active", "dram__throughput"}) {
    if (is(name, base)) return true;
  }
  if (is(name, "sm__warps_active_realtime")) return true;
  if (is(name, "sm__pipe_tensor_cycles_active_realtime")) return samples && host.chip != "TU102";
  if (is(name, "sm__pipe_tensor_cycles_active")) return !samples;
  if (is(name, "dram__read_throughput") || is(name, "dram__write_throughput")) return samples;
  if (name == "gpu__time_duration.sum" || name == "dram__bytes.sum") return !samples;
  if (name == "sm__warps_active.avg.pct_of_peak_sustained_active") return !samples;
  if (is(name, "sm__inst_executed") || is(name, "lts__t_sectors")) return !samples;
  if (name.rfind("nvl", 0) == 0) return samples && host.chip != "AD102";
  if (name.rfind("pcie__", 0) == 0) return samples && host.chip != "GB100";
  return false;
}

uint64_t passes_of(const Host& host) {
  uint64_t passes = 1;
  for (const std::string& name : host.metrics) {
    bool is_second = host.type == ProfilerType::kPmSampling && host.metrics.size() > 1 &&
                     is(name, "sm__warps_active");
    is_second = is_second || (host.metrics.size() > 1 && is(name, "sm__inst_executed"));
    if (is_second || (host.chip == "TU102" && is(name, "dram__throughput"))) passes = 2;
  }
  return passes;
}

double value_of(const std::string& name, const gpu_sim::ImageEntry& entry) {
  const gpu_sim::Units& units = entry.units;
  if (name == "gpu__time_duration.sum") return double(entry.end_ns - entry.start_ns);
  if (name.find("tensor") != std::string::npos) return 80 * units.tensor;
  if (name == "dram__bytes.sum") return 1e6 * units.memory;
  if (name.rfind("dram__", 0) == 0) return 90 * units.memory;
  if (name.rfind("nvl", 0) == 0 || name.rfind("pcie__", 0) == 0) return 1e9 * units.busy;
  if (name.rfind("sm__cycles", 0) == 0 || name.rfind("gr__", 0) == 0) return 100 * units.busy;
  return 50 * units.busy;
}

}  // namespace

namespace gpu_sim {

bool profiler_is_initialized() { return initialized.load() > 0; }

const char* chip() {
  const char* name = getenv("PILOTLIGHT_SIM_CHIP");
  return name != nullptr ? name : "GH100";
}

Image* image_in(uint8_t* data, size_t bytes, ProfilerType type) {
  auto* image = reinterpret_cast<Image*>(data);
  if (image == nullptr || bytes < sizeof(Image) || image->magic != Image::kMagic ||
      image->type != type || bytes != Image::bytes(image->most)) {
    illegal("a counter data image that was not initialized");
  }
  return image;
}

void check_config(const uint8_t* config, size_t bytes, ProfilerType type) {
  const auto* own = reinterpret_cast<const Config*>(config);
  if (own == nullptr || bytes != sizeof(Config) ||
      memcmp(own->magic, kConfigMagic, sizeof(kConfigMagic)) != 0 || own->type != type) {
    illegal("a configuration that the profiler host has not made");
  }
  if (own->passes != 1) illegal("a configuration of several passes");
}

Units units_of(const Work& kernel) {
  bool is_matrix = strstr(kernel.name, "gemm") != nullptr;
  return {1, is_matrix ? 1.0 : 0.0, is_matrix ? 0.0 : 1.0};
}

}  // namespace gpu_sim

extern "C" {

abi::Result cuptiProfilerInitialize(abi::ProfilerParams* params) {
  check_params(params, "cuptiProfilerInitialize");
  initialized++;
  return abi::kSuccess;
}

abi::Result cuptiProfilerDeInitialize(abi::ProfilerParams* params) {
  check_params(params, "cuptiProfilerDeInitialize");
  if (--initialized < 0) illegal("cuptiProfilerDeInitialize too often");
  if (initialized == 0 && !hosts.empty()) illegal("a profiler host object is left behind");
  return abi::kSuccess;
}

abi::Result cuptiDeviceGetChipName(abi::ChipNameParams* params) {
  check_params(params, "cuptiDeviceGetChipName");
  if (!gpu_sim::profiler_is_initialized()) return abi::kNotInitialized;
  params->name = gpu_sim::chip();
  return abi::kSuccess;
}

abi::Result cuptiProfilerHostInitialize(abi::HostInitializeParams* params) {
  check_params(params, abi::host_initialize_bytes(kVersion), "cuptiProfilerHostInitialize");
  bool is_known_chip = false;
  for (const char* chip : kChips) {
    is_known_chip = is_known_chip || (params->chip != nullptr && strcmp(chip, params->chip) == 0);
  }
  if (!is_known_chip) return kVersion >= 130000 ? abi::kInvalidChip : abi::kInvalidParameter;
  std::lock_guard<std::mutex> lock(mutex);
  auto* host = new Host{params->type, params->chip, {}};
  hosts[host] = host;
  params->host = host;
  return abi::kSuccess;
}

abi::Result cuptiProfilerHostDeinitialize(abi::HostParams* params) {
  check_params(params, "cuptiProfilerHostDeinitialize");
  std::lock_guard<std::mutex> lock(mutex);
  delete host_of(params->host);
  hosts.erase(params->host);
  return abi::kSuccess;
}

abi::Result cuptiProfilerHostConfigAddMetrics(abi::HostAddMetricsParams* params) {
  check_params(params, "cuptiProfilerHostConfigAddMetrics");
  std::lock_guard<std::mutex> lock(mutex);
  Host* host = host_of(params->host);
  for (size_t i = 0; i < params->count; i++) {
    if (!is_known(*host, params->names[i])) return abi::kInvalidParameter;
    host->metrics.emplace_back(params->names[i]);
  }
  return abi::kSuccess;
}

abi::Result cuptiProfilerHostGetConfigImageSize(abi::HostConfigSizeParams* params) {
  check_params(params, "cuptiProfilerHostGetConfigImageSize");
  std::lock_guard<std::mutex> lock(mutex);
  if (host_of(params->host)->metrics.empty()) illegal("a configuration without metrics");
  params->bytes = sizeof(Config);
  return abi::kSuccess;
}

abi::Result cuptiProfilerHostGetConfigImage(abi::HostConfigParams* params) {
  check_params(params, "cuptiProfilerHostGetConfigImage");
  std::lock_guard<std::mutex> lock(mutex);
  Host* host = host_of(params->host);
  if (params->bytes != sizeof(Config)) illegal("a configuration of another size");
  Config config = {};
  memcpy(config.magic, kConfigMagic, sizeof(kConfigMagic));
  config.type = host->type;
  config.passes = passes_of(*host);
  memcpy(params->config, &config, sizeof(config));
  return abi::kSuccess;
}

abi::Result cuptiProfilerHostGetNumOfPasses(abi::HostPassesParams* params) {
  check_params(params, "cuptiProfilerHostGetNumOfPasses");
  Config config;
  if (params->bytes != sizeof(Config)) illegal("a configuration of another size");
  memcpy(&config, params->config, sizeof(config));
  params->passes = config.passes;
  return abi::kSuccess;
}

abi::Result cuptiProfilerHostEvaluateToGpuValues(abi::HostEvaluateParams* params) {
  check_params(params, "cuptiProfilerHostEvaluateToGpuValues");
  std::lock_guard<std::mutex> lock(mutex);
  Host* host = host_of(params->host);
  Image* image =
      gpu_sim::image_in(const_cast<uint8_t*>(params->image), params->image_bytes, host->type);
  if (params->index >= image->count) illegal("a sample or range that is not in the image");
  for (size_t i = 0; i < params->count; i++) {
    bool is_asked = false;
    for (const std::string& name : host->metrics) is_asked = is_asked || name == params->names[i];
    if (!is_asked) illegal("a metric that was not configured");
    params->values[i] = value_of(params->names[i], image->entries[params->index]);
  }
  return abi::kSuccess;
}

}  // extern "C"
