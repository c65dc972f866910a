// native/tests/gpu_sim/pc_sampling_sim.cpp: CUPTI's PC Sampling API, simulated.
//
// A kernel is sampled every PILOTLIGHT_SIM_PC_PERIOD_NS while its context is started. Its samples
// fall on three instructions in turn, each with a reason to stall of its own, so that a test knows
// what must come out. Strict: order of calls, sizes of structures, who owns which buffer.
#include <stdint.h>

#include <atomic>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "cuda/pc_sampling_abi.h"
#include "cupti_sim.h"

namespace abi = pilotlight::cupti;
using gpu_sim::has_trap;
using gpu_sim::illegal;
using gpu_sim::kVersion;
using gpu_sim::number_in;

namespace {

const size_t kRecordBytes = abi::pc_record_bytes(kVersion);
// Numbers with holes: the place in a list is not the number of a reason.
constexpr uint32_t kIndices[] = {4, 9, 17, 18, 5};
const char* const kReasons[] = {"smsp__pcsamp_warps_issue_stalled_long_scoreboard",
                                "smsp__pcsamp_warps_issue_stalled_math_pipe_throttle",
                                "smsp__pcsamp_warps_issue_stalled_barrier",
                                "smsp__pcsamp_warps_issue_stalled_selected",
                                "smsp__pcsamp_warps_issue_stalled_long_scoreboard_not_issued"};
constexpr size_t kReasonCount = 5;
constexpr uint32_t kPart = 5;  // of the samples of the first reason, once more

struct Function {
  std::string name;
  uint64_t samples[3];
};

struct State {
  uint32_t uid = 0, device = 0;
  bool has_control = false, is_started = false, is_configured = false;
  std::vector<uint32_t> reasons;
  abi::PcData* own = nullptr;
  std::map<std::string, Function> functions;
  uint64_t total = 0, dropped = 0;
};

std::mutex mutex;
std::map<void*, State> states;
std::atomic<uint32_t> started{0};          // so that a launch costs nothing meanwhile
std::map<std::string, std::string> names;  // live for good, as CUPTI's do

double period_ns() {
  static const double value = number_in("PILOTLIGHT_SIM_PC_PERIOD_NS", 1000);
  return value;
}

template <typename T>
State* state_of(const T* params, const char* function) {
  gpu_sim::check_caller(function);
  if (params == nullptr || params->struct_bytes != sizeof(T)) illegal("a wrong struct size");
  if (params->unused != nullptr) illegal("pPriv is not NULL");
  uint32_t uid = 0, device = 0;
  if (!gpu_sim_context(params->context, &uid, &device)) illegal("PC sampling of a context gone");
  auto found = states.find(params->context);
  if (found == states.end()) illegal("PC sampling is not enabled for this context");
  return &found->second;
}

void check_buffer(const abi::PcData* data, size_t reasons) {
  if (data == nullptr || data->struct_bytes != abi::pc_data_bytes(kVersion)) {
    illegal("CUpti_PCSamplingData with a wrong size");
  }
  for (size_t i = 0; i < data->most_records; i++) {
    const auto* record = reinterpret_cast<const abi::PcRecord*>(
        static_cast<const uint8_t*>(data->first) + i * kRecordBytes);
    if (record->struct_bytes != kRecordBytes) illegal("CUpti_PCSamplingPCData with a wrong size");
    if (record->stalls == nullptr || reasons == 0) illegal("no room for stall reasons");
  }
}

// As much as fits; the rest stays.
void fill(State* state, abi::PcData* data) {
  data->records = 0;
  data->total_samples = state->total;
  data->dropped_samples = state->dropped;
  state->total = state->dropped = 0;
  for (auto it = state->functions.begin(); it != state->functions.end();) {
    Function& function = it->second;
    for (uint32_t pc = 0; pc < 3; pc++) {
      if (function.samples[pc] == 0 || data->records == data->most_records) continue;
      auto* record = reinterpret_cast<abi::PcRecord*>(static_cast<uint8_t*>(data->first) +
                                                      data->records++ * kRecordBytes);
      record->cubin_crc = 0xc0ffee;
      record->offset = 0x10 * (pc + 1);
      record->function_index = 1;
      record->function = const_cast<char*>(names[function.name].c_str());
      record->reasons = 1;
      record->stalls[0] = {kIndices[pc], uint32_t(function.samples[pc])};
      for (uint32_t reason : state->reasons) {
        if (reason != kPart || pc != 0) continue;
        record->stalls[record->reasons++] = {kPart, uint32_t(function.samples[pc])};
      }
      function.samples[pc] = 0;
    }
    bool is_empty = function.samples[0] + function.samples[1] + function.samples[2] == 0;
    it = is_empty ? state->functions.erase(it) : std::next(it);
  }
  data->left = 0;
  for (auto& [name, function] : state->functions) {
    for (uint64_t samples : function.samples) data->left += samples != 0 ? 1 : 0;
  }
}

}  // namespace

namespace gpu_sim {

bool pc_sampling_on() {
  std::lock_guard<std::mutex> lock(mutex);
  return !states.empty();
}

void pc_sampling_sees(const Work& kernel) {
  if (started.load(std::memory_order_relaxed) == 0) return;
  std::lock_guard<std::mutex> lock(mutex);
  for (auto& [context, state] : states) {
    if (state.uid != kernel.context || !state.is_started) continue;
    auto count = uint64_t(double(kernel.end_ns - kernel.start_ns) / period_ns());
    state.total += count;
    if (has_trap("pc_drop")) {
      state.dropped += count;
      continue;
    }
    names.emplace(kernel.name, kernel.name);
    Function& function = state.functions[kernel.name];
    function.name = kernel.name;
    // 3 of 6 wait for memory, 2 for the tensor cores, 1 at a barrier.
    for (uint64_t i = 0; i < count; i++) function.samples[i % 6 < 3 ? 0 : i % 6 < 5 ? 1 : 2]++;
  }
}

void pc_sampling_context_ends(void* context) {
  std::lock_guard<std::mutex> lock(mutex);
  auto found = states.find(context);
  if (found == states.end()) return;
  if (found->second.is_started) started--;
  states.erase(found);
}

}  // namespace gpu_sim

extern "C" {

abi::Result cuptiGetDeviceId(void* context, uint32_t* device) {
  uint32_t uid = 0;
  return gpu_sim_context(context, &uid, device) ? abi::kSuccess : abi::kInvalidParameter;
}

abi::Result cuptiPCSamplingEnable(abi::PcContextParams* params) {
  gpu_sim::check_caller("cuptiPCSamplingEnable");
  if (params == nullptr || params->struct_bytes != sizeof(*params)) illegal("a wrong struct size");
  if (has_trap("pc_privileges")) return abi::kInsufficientPrivileges;
  std::lock_guard<std::mutex> lock(mutex);
  State state;
  if (!gpu_sim_context(params->context, &state.uid, &state.device)) {
    illegal("PC sampling of a context gone");
  }
  if (states.count(params->context) != 0) illegal("PC sampling enabled twice");
  for (auto& [context, other] : states) {
    if (other.device == state.device) illegal("PC sampling of two contexts of one device");
  }
  if (kVersion < 27 && gpu_sim::kernel_records_on()) return abi::kNotCompatible;
  states[params->context] = state;
  return abi::kSuccess;
}

abi::Result cuptiPCSamplingDisable(abi::PcContextParams* params) {
  std::lock_guard<std::mutex> lock(mutex);
  State* state = state_of(params, "cuptiPCSamplingDisable");
  if (state->is_started) started--;
  if (state->own != nullptr) fill(state, state->own);
  states.erase(params->context);
  return abi::kSuccess;
}

abi::Result cuptiPCSamplingGetNumStallReasons(abi::PcCountReasonsParams* params) {
  std::lock_guard<std::mutex> lock(mutex);
  state_of(params, "cuptiPCSamplingGetNumStallReasons");
  *params->count = kReasonCount;
  return abi::kSuccess;
}

abi::Result cuptiPCSamplingGetStallReasons(abi::PcGetReasonsParams* params) {
  std::lock_guard<std::mutex> lock(mutex);
  state_of(params, "cuptiPCSamplingGetStallReasons");
  if (params->count != kReasonCount) illegal("another number of stall reasons than there are");
  for (size_t i = 0; i < kReasonCount; i++) {
    params->indices[i] = kIndices[i];
    snprintf(params->names[i], abi::kStallReasonNameBytes, "%s", kReasons[i]);
  }
  return abi::kSuccess;
}

abi::Result cuptiPCSamplingSetConfigurationAttribute(abi::PcConfigureParams* params) {
  std::lock_guard<std::mutex> lock(mutex);
  State* state = state_of(params, "cuptiPCSamplingSetConfigurationAttribute");
  if (state->is_started) illegal("PC sampling configured while it runs");
  for (size_t i = 0; i < params->count; i++) {
    abi::PcSetting& setting = params->settings[i];
    setting.status = abi::kSuccess;
    switch (setting.attribute) {
      case abi::kPcStallReasons: {
        const auto* indices = reinterpret_cast<const uint32_t*>(setting.value[1]);
        for (size_t j = 0; j < setting.value[0]; j++) {
          bool known = false;
          for (uint32_t index : kIndices) known = known || index == indices[j];
          if (!known) illegal("a stall reason that is none");
          state->reasons.push_back(indices[j]);
        }
        break;
      }
      case abi::kPcHardwareBufferBytes:
        if (setting.value[0] < 1 << 20) illegal("a hardware buffer of less than 1 MB");
        break;
      case abi::kPcCollectionMode:
        if (setting.value[0] != 1) illegal("a mode in which kernels run one after the other");
        break;
      case abi::kPcStartStopControl:
        state->has_control = setting.value[0] == 1;
        break;
      case abi::kPcDataBuffer:
        state->own = reinterpret_cast<abi::PcData*>(setting.value[0]);
        break;
      default:
        illegal("an attribute of PC sampling that is not known");
    }
  }
  check_buffer(state->own, state->reasons.size());
  state->is_configured = true;
  return abi::kSuccess;
}

abi::Result cuptiPCSamplingStart(abi::PcContextParams* params) {
  std::lock_guard<std::mutex> lock(mutex);
  State* state = state_of(params, "cuptiPCSamplingStart");
  if (!state->is_configured || !state->has_control) illegal("a start that was not configured");
  if (state->is_started) illegal("PC sampling started twice");
  state->is_started = true;
  started++;
  return abi::kSuccess;
}

abi::Result cuptiPCSamplingStop(abi::PcContextParams* params) {
  std::lock_guard<std::mutex> lock(mutex);
  State* state = state_of(params, "cuptiPCSamplingStop");
  if (!state->is_started) illegal("PC sampling stopped that was not started");
  state->is_started = false;
  started--;
  return abi::kSuccess;
}

abi::Result cuptiPCSamplingGetData(abi::PcGetDataParams* params) {
  std::lock_guard<std::mutex> lock(mutex);
  State* state = state_of(params, "cuptiPCSamplingGetData");
  auto* data = static_cast<abi::PcData*>(params->data);
  check_buffer(data, state->reasons.size());
  if (data == state->own) illegal("the buffer of the configuration is CUPTI's own");
  fill(state, data);
  if (kVersion <= 18 || !has_trap("pc_full")) return abi::kSuccess;
  data->is_hardware_full = 1;
  return abi::kOutOfMemory;
}

}  // extern "C"
